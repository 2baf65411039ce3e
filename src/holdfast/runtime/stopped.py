"""A job that does not run: which transactions it has left, and settling them by hand.

Looking changes nothing. Who settles holds the job's claim, so that nobody on this machine starts it
meanwhile, and its epoch, as a runner does: one on another machine stops before it settles anything
itself, and one that starts there meanwhile stops this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.checkpoints.metadata import CheckpointMetadata, Transaction
from holdfast.checkpoints.store import read_checkpoint, read_completed
from holdfast.errors import EnvironmentProblem, FileMissing, HoldfastError, UsageError
from holdfast.protocol.flow import NOTHING
from holdfast.protocol.graph import Graph, SinkUse
from holdfast.protocol.statistics import Status
from holdfast.querylog.snapshots import newest_commit
from holdfast.runtime.attempts import base_of
from holdfast.runtime.channels import decode_segment
from holdfast.runtime.epochs import owned_transactions
from holdfast.runtime.fencing import Fence, elsewhere, raise_epoch
from holdfast.runtime.history import History
from holdfast.runtime.running import checkpoint_directory, history_directory
from holdfast.runtime.settlements import Settlements
from holdfast.runtime.transactions import (
    Listing,
    Outcome,
    Owner,
    PendingTransaction,
    Settled,
    fate_of_batch,
    fate_of_owned,
    fate_of_unowned,
    why_not_abort,
    why_not_commit,
)
from holdfast.runtime.unstaged import Unstaged
from holdfast.runtime.work import Attempt, WorkDirectory
from holdfast.settings import Settings
from holdfast.sinks import (
    DroppingSink,
    Epoch,
    EpochSegment,
    EpochSink,
    Handle,
    InquiringSink,
)
from holdfast.storage import Storage, open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

StartSpark = Callable[[], "SparkSession"]


@dataclass(frozen=True, slots=True)
class StoppedJob:
    """What a job has left."""

    graph: Graph
    work: WorkDirectory
    history: History
    attempt: Attempt | None
    base: CheckpointMetadata | None
    """The checkpoint that the next start goes on from, as far as sinks are concerned."""
    restores: bool
    """The next start builds a new attempt from it; what the old one has staged is none of its."""

    @property
    def ended(self) -> str | None:
        """``FINISHED`` or ``CANCELED``, if it is over for good."""
        return self.attempt.ended if self.attempt is not None else None

    @property
    def sinks(self) -> list[str]:
        """Sinks with transactions: the job's, and those that it had."""
        had = owned_transactions(self.base)
        return list(dict.fromkeys([*(use.uid for use in _epoch_sinks(self.graph)), *had]))

    def pending(self) -> Listing:
        """Everything that is pending, by sink and checkpoint."""
        found: list[PendingTransaction] = []
        unreachable: dict[str, str] = {}
        for use in _epoch_sinks(self.graph):
            try:
                found += sorted(self._of_sink(use), key=lambda each: each.checkpoint)
            except Exception as error:  # whatever a store's client raises
                unreachable[use.uid] = str(error) or repr(error)
        return Listing([*found, *self._without_sink()], unreachable)

    def _of_sink(self, use: SinkUse) -> Iterator[PendingTransaction]:
        sink: EpochSink = use.sink
        held = {h["checkpoint"]: h for h in sink.pending(self.work.job_id, use.uid)}
        for transaction in owned_transactions(self.base).get(use.uid, []):
            is_held = held.pop(transaction.handle["checkpoint"], None) is not None
            if self._is_open(use, transaction, is_held):
                number = transaction.checkpoint
                fate = fate_of_owned(number, self.ended, sink.keeps_rows)
                yield self._described(use, number, Owner.COMPLETED, fate, transaction.handle)
        batch, kept = self._unstaged(use) or (NOTHING, {"checkpoint": None})
        for number, handle in held.items():
            if number == kept["checkpoint"]:
                fate = fate_of_batch(batch, self.ended)
                yield self._described(use, number, Owner.BATCH, fate, kept)
            else:
                fate = fate_of_unowned(self.ended)
                yield self._described(use, number, Owner.NOBODY, fate, handle)

    def _unstaged(self, use: SinkUse) -> tuple[int, Handle] | None:
        """The batch whose rows are in a transaction and nowhere else."""
        if self.attempt is None or self.restores:
            return None
        snapshot = self.base.region(use.region) if self.base is not None else None
        newest = newest_commit(self.attempt.region(use.region))
        return Unstaged(self._channel(self.attempt, use), use.uid).find(
            snapshot.cut if snapshot is not None else NOTHING,
            newest.batch if newest is not None else NOTHING,
        )

    def _channel(self, attempt: Attempt, use: SinkUse) -> Storage:
        return open_storage(attempt.storage.locate(f"channels/{use.region}"))

    def _is_open(self, use: SinkUse, transaction: Transaction, is_held: bool) -> bool:
        """Whether an owned transaction may still have to be committed."""
        if use.sink.keeps_rows:
            # Segments are deleted when their rows are in the store, and that has been noted.
            is_staged = self._segments(use, transaction) is not None
            in_question = is_staged or not self._is_settled(use.uid, transaction.checkpoint)
            return self.ended != "FINISHED" and in_question
        if self.base is not None and self.base.job_id != self.work.job_id:
            held = use.sink.pending(self.base.job_id, use.uid)
            return any(h["checkpoint"] == transaction.handle["checkpoint"] for h in held)
        return is_held

    def _is_settled(self, sink: str, checkpoint: int) -> bool:
        """Whether it is on record that nothing is left to do about a transaction."""
        if self.attempt is None or self.restores:
            return False
        return Settlements(self.attempt.storage, sink).has(checkpoint)

    def _described(
        self, use: SinkUse, number: int, owner: Owner, fate: str, handle: Handle
    ) -> PendingTransaction:
        return PendingTransaction(
            use.uid,
            number,
            owner,
            fate,
            _inquired(use.sink, handle),
            self._since(number),
            handle=handle,
            keeps_rows=use.sink.keeps_rows,
            can_be_dropped=isinstance(use.sink, DroppingSink),
        )

    def _since(self, checkpoint: int) -> float | None:
        """When the checkpoint was triggered; one that was interrupted has no statistics."""
        if self.base is not None and self.base.id == checkpoint:
            return self.base.triggered
        figures = self.history.get(checkpoint)
        return figures.triggered if figures is not None else self.work.given_at(checkpoint)

    def _without_sink(self) -> Iterator[PendingTransaction]:
        known = {use.uid for use in _epoch_sinks(self.graph)}
        for uid, owned in owned_transactions(self.base).items():
            for each in owned if uid not in known else ():
                if self._is_settled(uid, each.checkpoint):
                    continue
                fate = (
                    f"checkpoint {each.checkpoint}, completed; but the job has no sink {uid!r} any "
                    "more: the next start is refused until it is settled"
                )
                since, handle = self._since(each.checkpoint), each.handle
                yield PendingTransaction(
                    uid, each.checkpoint, Owner.COMPLETED, fate, (), since, handle=handle,
                    has_sink=False,
                )  # fmt: skip

    def _segments(self, use: SinkUse, transaction: Transaction) -> list[EpochSegment] | None:
        """The staged rows of a transaction; ``None`` if they are not there."""
        if self.attempt is None or self.restores:
            return None
        storage = self._channel(self.attempt, use)
        found = []
        for batch in range(transaction.first, transaction.end):
            try:
                path = f"log/{batch}"
                segment = decode_segment(batch, storage.read(path), storage.locate(path))
            except FileMissing:
                return None
            folder = storage.locate(f"segments/{segment.folder}")
            files = tuple(f"{folder}/{name}" for name, _ in segment.files)
            sizes = tuple(size for _, size in segment.files)
            found.append(EpochSegment(batch, files, segment.size, sizes))
        return found

    # Settling, with claim and epoch

    def commit(
        self, chosen: Sequence[PendingTransaction], force: bool, fence: Fence, spark: StartSpark
    ) -> Iterator[Settled]:
        """Commit what may be, one after the other."""
        for each in chosen:
            if reason := why_not_commit(each, force):
                yield Settled(each.sink, each.checkpoint, Outcome.REFUSED, reason)
            else:
                yield _tried(each, Outcome.COMMITTED, lambda t: self._commit(t, fence, spark))

    def abort(
        self, chosen: Sequence[PendingTransaction], force: bool, fence: Fence
    ) -> Iterator[Settled]:
        """Abort what may be, one after the other."""
        for each in chosen:
            if reason := why_not_abort(each, force):
                yield Settled(each.sink, each.checkpoint, Outcome.REFUSED, reason)
            else:
                yield _tried(each, Outcome.ABORTED, lambda t: self._abort(t, fence))

    def _commit(self, pending: PendingTransaction, fence: Fence, spark: StartSpark) -> None:
        use = self.graph.sinks[pending.sink]
        sink: EpochSink = use.sink
        epoch = self._epoch(use, pending, spark)
        fence.check()
        sink.recover_and_commit(epoch, pending.handle)
        for left in sink.pending(self.work.job_id, use.uid):
            # Parts of tasks that ran twice. The next start would abort them too.
            if left["checkpoint"] == pending.handle["checkpoint"]:
                sink.abort(left)
        self._settle(pending)

    def _abort(self, pending: PendingTransaction, fence: Fence) -> None:
        sink: EpochSink = self.graph.sinks[pending.sink].sink
        fence.check()
        if pending.can_be_dropped and isinstance(sink, DroppingSink):
            sink.drop(pending.handle, pending.sink)
        else:
            sink.abort(pending.handle)
        self._settle(pending)

    def _settle(self, pending: PendingTransaction) -> None:
        """Let the next start know, also if the sink is removed before it."""
        if pending.owner is Owner.COMPLETED and self.attempt is not None and not self.restores:
            Settlements(self.attempt.storage, pending.sink).record(pending.checkpoint)

    def _epoch(self, use: SinkUse, pending: PendingTransaction, spark: StartSpark) -> Epoch:
        attempt = self.attempt.number if self.attempt is not None else 0
        if not pending.keeps_rows:
            nothing: Any = None  # who needs no rows needs no Spark
            return Epoch(
                self.work.job_id, attempt, use.uid, pending.checkpoint, (), nothing, nothing
            )
        (owned,) = [
            t for t in owned_transactions(self.base)[use.uid] if t.checkpoint == pending.checkpoint
        ]
        segments = self._segments(use, owned)
        if segments is None:
            raise UsageError(
                "the rows are in the checkpoint only", hint="Start the job from it: it writes them."
            )
        session, schema = spark(), self._schema(use.region)
        return Epoch(
            self.work.job_id, attempt, use.uid, pending.checkpoint, segments, session, schema
        )

    def _schema(self, region: str) -> StructType:
        from pyspark.sql.types import StructType

        snapshot = self.base.region(region) if self.base is not None else None
        if snapshot is None:
            raise EnvironmentProblem("the checkpoint has nothing of the region", region=region)
        return StructType.fromJson(dict(snapshot.schema))


def _epoch_sinks(graph: Graph) -> list[SinkUse]:
    return [use for use in graph.sinks.values() if isinstance(use.sink, EpochSink)]


def _inquired(sink: EpochSink, handle: Handle) -> list[str]:
    return sink.inquire(handle) if isinstance(sink, InquiringSink) else sink.describe(handle)


def _tried(
    pending: PendingTransaction, outcome: Outcome, settle: Callable[[PendingTransaction], None]
) -> Settled:
    try:
        settle(pending)
    except Exception as error:  # whatever a store's client raises
        return Settled(pending.sink, pending.checkpoint, Outcome.FAILED, str(error) or repr(error))
    return Settled(pending.sink, pending.checkpoint, outcome)


def refuse_running_elsewhere(work: WorkDirectory) -> None:
    """A runner on another machine may be alive: only its epoch tells of it."""
    other = elsewhere(work.storage)
    if other is None:
        return
    at = other.get("at")
    since = datetime.fromtimestamp(at, UTC).isoformat(" ", "seconds") if at is not None else "?"
    where = other.get("host", "another machine")
    raise UsageError(
        f"a runner on {where} has the job since {since} UTC and has not left it",
        hint=f"If it runs, it takes care of its transactions itself; to settle them here, stop it "
        f"there first. If {where} or the runner is dead, start the job, or say --take-over: should "
        "it live after all, it is stopped.",
        job=work.job_id,
        host=other.get("host"),
        pid=other.get("pid"),
    )


@contextmanager
def holding_epoch(work: WorkDirectory) -> Iterator[Fence]:
    """While this lasts, runners on other machines stop before they settle anything.

    When it is left by an interruption, something may still be writing: the epoch is then not left,
    and a successor elsewhere waits.
    """
    fence = raise_epoch(work.storage)
    fence.wait_for_predecessor()
    try:
        yield fence
    except Exception:
        _leave(fence)
        raise
    _leave(fence)


def _leave(fence: Fence) -> None:
    with suppress(HoldfastError):  # a successor then waits a little
        fence.leave()


def find_stopped(graph: Graph, settings: Settings) -> StoppedJob | None:
    """What a job has left; ``None`` if it has never run."""
    work = WorkDirectory.find(settings.work_dir, graph.name)
    if work is None:
        return None
    attempt, history = work.current(), History(history_directory(settings, work))
    if settings.restore_path is not None:
        base, _ = read_checkpoint(settings.restore_path)
        return StoppedJob(graph, work, history, attempt, base, restores=True)
    completed = read_completed(checkpoint_directory(settings, work))
    if attempt is None:
        return StoppedJob(graph, work, history, None, None, restores=False)
    if not completed and attempt.ended is None:
        _refuse_lost_checkpoint(history, settings)
    own = base_of(attempt, completed)
    return StoppedJob(graph, work, history, attempt, own, restores=False)


def _refuse_lost_checkpoint(history: History, settings: Settings) -> None:
    """With a wrong directory of checkpoints everything would seem to be nobody's."""
    latest = history.latest(Status.COMPLETED)
    if latest is not None:
        raise UsageError(
            f"checkpoint {latest.id} has completed, but there is none where the settings say",
            hint="Give the settings that the job is run with: --set execution.checkpointing.dir=…",
            was=latest.path,
            dir=settings.checkpointing.dir,
        )
