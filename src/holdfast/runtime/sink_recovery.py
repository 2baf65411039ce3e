"""What sinks were promised before a job starts again: who still needs it, and that they get it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from holdfast.checkpoints.metadata import CheckpointMetadata
from holdfast.errors import UsageError
from holdfast.protocol.flow import NOTHING
from holdfast.runtime.epochs import SinkEpochs, owned_transactions
from holdfast.runtime.gates import Gates
from holdfast.runtime.settlements import Settlements
from holdfast.runtime.work import Attempt

_log = logging.getLogger(__name__)


class SinkLost(UsageError):
    """A sink was removed before it got what it was promised."""

    code = "SINK_LOST"


class SinkRecovery:
    """Recovers the sinks of an attempt by its base, the checkpoint that covers what they got.

    ``newest`` is the last checkpoint that was triggered.
    """

    def __init__(
        self,
        base: CheckpointMetadata | None,
        job_id: str,
        attempt: Attempt,
        gates: Gates,
        newest: int,
    ) -> None:
        self._base = base
        self._attempt = attempt
        self._gates = gates
        self._newest = newest
        self._owned = owned_transactions(base)
        taken_by = base.job_id if base is not None else job_id
        self._other_job = taken_by if taken_by != job_id else None
        """The job that took the checkpoint, if it was restored under another id."""

    def refuse_lost(self, sinks: Iterable[SinkEpochs]) -> None:
        """What was promised to a sink that the job does not have any more must be settled first.

        Not if another job has promised it: that one can settle it, and may still run.
        """
        known = {sink.uid for sink in sinks}
        for uid in self._owned.keys() - known:
            settlements = Settlements(self._attempt.storage, uid)
            for transaction in self._owned[uid]:
                if settlements.has(transaction.checkpoint):
                    continue
                error = _lost(uid, transaction.checkpoint)
                if self._other_job is None:
                    raise error
                _log.warning("%s", error)

    def needs_what_runs_again(self, sink: SinkEpochs) -> bool:
        """Whether the rows that the sink was promised may be among those of ``replaying``."""
        return sink.keeps_rows and self._covered(sink) > self._gates.last_batch(sink.region)

    def recover(self, sinks: Iterable[SinkEpochs]) -> None:
        """Let them commit what is theirs, and abort everything else of this job."""
        for sink in sinks:
            committed = self._gates.last_batch(sink.region)
            owned = self._owned.get(sink.uid, [])
            sink.recover(owned, self._covered(sink) + 1, committed, self._newest)
            self._tell_what_is_left(sink)

    def _covered(self, sink: SinkEpochs) -> int:
        """The last batch of which the sink has got the rows, or has been promised them."""
        snapshot = self._base.region(sink.region) if self._base is not None else None
        return snapshot.cut if snapshot is not None else NOTHING

    def _tell_what_is_left(self, sink: SinkEpochs) -> None:
        """Nobody knows here whether the other job still runs and will commit it."""
        if self._other_job is None or not (left := sink.left_by(self._other_job)):
            return
        _log.warning(
            "sink %s has transactions of job %s that the restored checkpoint does not own: %s. "
            "They are left alone, because that job may still run. If it does not, `holdfast "
            "transactions abort` with its script and settings ends them; until then they may "
            "hold locks.",
            sink.uid,
            self._other_job,
            "; ".join(left),
        )


def _lost(uid: str, checkpoint: int) -> SinkLost:
    return SinkLost(
        f"the job has no sink {uid!r} any more, but checkpoint {checkpoint} has promised it rows "
        "that may not be in its store yet",
        hint="Put the sink back into the script, under the same uid, and start the job once, or "
        "settle the transaction with `holdfast transactions commit SCRIPT`; then remove the sink.",
        sink=uid,
        checkpoint_id=checkpoint,
    )
