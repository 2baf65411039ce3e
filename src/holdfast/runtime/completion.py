"""What follows when every region has acknowledged a checkpoint.

1. Its metadata is written and stored: from then on it exists, whatever dies.
2. Older checkpoints beyond the number to retain are deleted, beside everything else.
3. Sinks commit the transactions that it promises: see ``commits``.
4. The job's own functions are told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from holdfast import clock
from holdfast.checkpoints.metadata import CheckpointMetadata, SegmentSnapshot
from holdfast.checkpoints.store import CheckpointStore, CheckpointWriter
from holdfast.errors import HoldfastError
from holdfast.protocol.pending import Pending
from holdfast.protocol.retention import subsumed
from holdfast.runtime.epochs import SinkEpochs
from holdfast.runtime.fencing import Fence
from holdfast.runtime.history import History
from holdfast.runtime.promises import Promises
from holdfast.runtime.snapshots import Answer
from holdfast.settings import Checkpointing
from holdfast.steps import step

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions of the user's; each is called once per checkpoint, in the order of ids."""

    on_snapshot: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    on_complete: Sequence[Callable[[int], object]] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """What every checkpoint says about its job."""

    job_id: str
    job_name: str
    attempt: int
    holdfast: str
    spark: str


class Completion:
    """Completes checkpoints, one after the other."""

    def __init__(
        self,
        identity: Identity,
        settings: Checkpointing,
        store: CheckpointStore,
        sinks: Sequence[SinkEpochs],
        history: History,
        hooks: Hooks,
        promises: Promises,
        fence: Fence,
    ) -> None:
        self.store = store
        self.history = history
        self._identity = identity
        self._settings = settings
        self._sinks = sinks
        self._hooks = hooks
        self._promises = promises
        self._fence = fence
        self._deleting = ThreadPoolExecutor(1, "delete-old")

    def close(self) -> None:
        """Wait for what is being deleted."""
        self._deleting.shutdown()

    def before(self, checkpoint: int) -> dict[str, Any]:
        """Ask the snapshot hooks; what they return becomes part of the checkpoint."""
        return {name: hook(checkpoint) for name, hook in self._hooks.on_snapshot.items()}

    def store_it(
        self, pending: Pending[Answer], writer: CheckpointWriter, user: Mapping[str, Any]
    ) -> None:
        """Make the checkpoint real. It exists from ``complete`` on: nothing behind it may fail."""
        metadata = self._metadata(pending, user)
        self._promises.record(metadata)
        self._fence.check()
        writer.complete(metadata)
        self._try_to_settle(pending.id)
        for sink in self._sinks:
            sink.promise(pending.id)
        self.history.completed(pending.id, metadata.completed, self.store.path_of(pending.id))

    def _try_to_settle(self, checkpoint: int) -> None:
        """What older checkpoints promised stays a little longer; the next one settles it too."""
        try:
            self._promises.settle(checkpoint)
        except HoldfastError:
            _log.exception("older promises were not settled [checkpoint_id=%s]", checkpoint)

    def _metadata(self, pending: Pending[Answer], user: Mapping[str, Any]) -> CheckpointMetadata:
        answers = [pending.acks[region] for region in sorted(pending.acks)]
        figures = self.history.of(pending.id)
        now = clock.now()
        return CheckpointMetadata(
            job_id=self._identity.job_id,
            job_name=self._identity.job_name,
            id=pending.id,
            kind="checkpoint",
            mode=self._settings.mode.value,
            unaligned=figures.unaligned,
            full=figures.full,
            triggered=pending.triggered,
            completed=now,
            attempt=self._identity.attempt,
            holdfast=self._identity.holdfast,
            spark=self._identity.spark,
            regions=tuple(answer.region for answer in answers),
            in_flight=_distinct([s for answer in answers for s in answer.in_flight]),
            transactions=tuple(t for sink in self._sinks for t in sink.pending(pending.id)),
            user=user,
            statistics={"cause": pending.request.cause.name, "duration": now - pending.triggered},
        )

    def subsume(self) -> None:
        """Delete the checkpoints beyond those to retain, in the background."""
        store = self.store
        for old in subsumed(store.completed, store.damaged, self._settings.num_retained):
            store.forget(old)
            self.history.discarded(old)
            self.delete_later(f"checkpoint {old}", partial(self._delete, old))

    def _delete(self, checkpoint: int) -> None:
        with step("subsume"):
            self.store.delete(checkpoint)

    def delete_later(self, what: str, delete: Callable[[], None]) -> None:
        """Delete something old in the background: however long it takes, checkpoints go on."""
        self._deleting.submit(self._try_to_delete, what, delete)

    def _try_to_delete(self, what: str, delete: Callable[[], None]) -> None:
        try:
            delete()
        except Exception:  # the next start, or the next attempt, removes what is left of it
            _log.exception("%s was not deleted", what)

    def notify(self, checkpoint: int) -> None:
        """Tell the completion hooks; they cannot take the checkpoint back."""
        with step("notify"):
            for hook in self._hooks.on_complete:
                try:
                    hook(checkpoint)
                except Exception:
                    _log.exception("a completion hook failed [checkpoint_id=%s]", checkpoint)


def _distinct(segments: Sequence[SegmentSnapshot]) -> tuple[SegmentSnapshot, ...]:
    """Two readers of a channel may both have a segment in flight; it is kept once."""
    return tuple({(s.channel, s.segment): s for s in segments}.values())
