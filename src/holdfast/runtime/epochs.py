"""Epoch sinks of a job: which rows belong to which transaction, and what became of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.checkpoints.metadata import CheckpointMetadata, Transaction
from holdfast.errors import HoldfastError, MissingFile
from holdfast.protocol.graph import SinkUse
from holdfast.runtime.channels import Channel, nothing
from holdfast.runtime.gates import Gates
from holdfast.runtime.settlements import Settlements
from holdfast.runtime.unstaged import Unstaged
from holdfast.sinks import ClaimingSink, Epoch, EpochSegment, EpochSink, Handle
from holdfast.steps import step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class EpochsStopped(HoldfastError):
    """The job ends while a checkpoint waits for a sink."""

    code = "STOPPED"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The transaction that a sink has open, and how its checkpoint is doing."""

    transaction: Transaction
    is_promised: bool
    """Its checkpoint is complete."""
    has_failed: bool
    parts: Sequence[str]
    """In the sink's words."""


class SinkEpochs:
    """One epoch sink. It has at most one open transaction.

    A transaction is named after the checkpoint at whose barrier it was pre-committed. When that
    completes it is committed; when that fails it is aborted and its rows go into the next one. A
    checkpoint that comes before either has happened waits. So two transactions that are open at
    the same time, and might want the same row of a table, do not exist.

    When every batch is its own checkpoint, rows need not be staged: ``write`` pre-commits a batch
    while it runs, and the checkpoint that follows takes it over. If that fails it waits for the
    next, because its rows are nowhere else.
    """

    def __init__(
        self,
        use: SinkUse,
        job_id: str,
        attempt: int,
        channel: Channel,
        gates: Gates,
        settlements: Settlements,
        check: Callable[[], None] = nothing,
    ) -> None:
        self.uid = use.uid
        self.region = use.region
        self.keeps_rows: bool = use.sink.keeps_rows
        self._sink: EpochSink = use.sink
        self._job_id = job_id
        self._attempt = attempt
        self._channel = channel
        self._gates = gates
        self._settlements = settlements
        self._check = check
        self._changed = threading.Condition()
        self._next = 0
        """The first segment that is in no committed or open transaction."""
        self._open: Transaction | None = None
        self._prepared: Transaction | None = None
        """Of a batch that was not staged: pre-committed, and no checkpoint has taken it yet."""
        self._unstaged = Unstaged(channel.storage, self.uid)
        self._newest_unstaged = -1
        self._newest = 0
        """The newest checkpoint that is known of."""
        self._promised = 0
        """The newest checkpoint that has completed."""
        self._failed: set[int] = set()
        """Checkpoints that failed since the last one that completed."""
        self._stopping = False

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Before the first row: the sink looks whether it can take them."""
        self._spark = spark
        self._schema = schema
        self._sink.check(spark, schema)
        if isinstance(self._sink, ClaimingSink):
            with step("claim", self.uid):
                self._sink.claim(self._job_id, self.uid)

    def recover(
        self, owned: Sequence[Transaction], position: int, committed: int, newest: int
    ) -> None:
        """After a restart: commit what a completed checkpoint owns, abort everything else.

        ``position`` is where the rows begin that no completed checkpoint covers, ``committed`` the
        region's last batch. If that was not staged, its transaction is all there is of its rows.
        ``newest`` is the last checkpoint that was triggered.
        """
        self._newest = newest
        with step("recover", self.uid):
            for transaction in owned:
                if not self._is_known_to_be_committed(transaction):
                    self._sink.recover_and_commit(self._epoch(transaction), transaction.handle)
                    self._settlements.record(transaction.checkpoint)
            kept = self._unstaged.recover(position - 1, committed)
            for handle in self._sink.pending(self._job_id, self.uid):
                if kept is None or handle["checkpoint"] != kept[1]["checkpoint"]:
                    self._abort(handle)
        self._next = position
        if kept is not None:
            self._keep(*kept)
        self._gates.sink_done(self.region, self.uid, self._next)

    def _is_known_to_be_committed(self, transaction: Transaction) -> bool:
        """Its staged rows are gone, and that they are out was noted before they went.

        Rows that are gone without that may be in no store: they are not given up here.
        """
        staged = set(self._channel.batches())
        missing = sorted(set(range(transaction.first, transaction.end)) - staged)
        if not self.keeps_rows or not missing:
            return False
        if self._settlements.has(transaction.checkpoint):
            return True
        raise MissingFile(
            f"rows that checkpoint {transaction.checkpoint} has promised to sink {self.uid!r} are "
            "not staged any more, and it is not known whether they are in its store",
            hint="They are in the checkpoint: start the job with --from and its path.",
            path=self._channel.storage.locate(f"log/{missing[0]}"),
        )

    def left_by(self, job_id: str) -> list[str]:
        """What another job has pending at this sink, in the sink's words."""
        handles = self._sink.pending(job_id, self.uid)
        return [line for handle in handles for line in self._sink.describe(handle)]

    # In the query's thread, when every batch is its own checkpoint

    def write(self, batch: int, rows: DataFrame) -> None:
        """Pre-commit the rows of a batch without staging them. The next checkpoint owns them."""
        self._wait(lambda: self._is_free() and self._open is None and self._next >= batch)
        if batch < self._next:
            # A checkpoint covers it already; only the query's own state has to follow.
            rows.write.format("noop").mode("append").save()
            return
        planned = Transaction(self.uid, self._newest + 1, batch, batch + 1, {})
        self._check()
        with step("precommit", self.uid):
            handle = self._sink.pre_commit(replace(self._epoch(planned), batch=rows))
        with step("unstaged", self.uid):
            self._unstaged.record(batch, handle)
        self._keep(batch, handle)

    def _keep(self, batch: int, handle: Handle) -> None:
        number = handle["checkpoint"]
        with self._changed:
            self._prepared = Transaction(self.uid, number, batch, batch + 1, handle)
            self._newest_unstaged = batch
            self._next = batch + 1

    @property
    def waits_for_checkpoint(self) -> bool:
        """Whether a batch that was not staged is in no checkpoint yet."""
        return self._prepared is not None

    def wait_for_unstaged(self) -> None:
        """Before a batch is staged: what was not staged must be committed."""
        self._wait(self._is_free)

    def _is_free(self) -> bool:
        """Whether no batch that was not staged is open."""
        return self._prepared is None and not (self._open and self._is_unstaged(self._open))

    def _is_unstaged(self, transaction: Transaction) -> bool:
        return transaction.first == self._newest_unstaged

    # In the thread of the region's snapshots

    def pre_commit(self, checkpoint: int, cut: int) -> None:
        """Put the rows up to the cut that are in no transaction yet into one.

        Called in the order of checkpoints. If it fails, the rows go into the next transaction. A
        checkpoint that has failed while it waited here gets none.
        """
        self._wait(self._is_settled)
        self.abort_failed()
        if checkpoint in self._failed:
            return
        if self._prepared is not None and self._prepared.first <= cut:
            self._take_prepared(checkpoint)
        if self._next > cut:
            return
        planned = Transaction(self.uid, checkpoint, self._next, cut + 1, {})
        self._check()
        with step("precommit", self.uid):
            handle = self._sink.pre_commit(self._epoch(planned, with_rows=True))
        with self._changed:
            self._open = replace(planned, handle=handle)
            self._next = cut + 1

    def _take_prepared(self, checkpoint: int) -> None:
        with self._changed:
            assert self._prepared is not None
            self._open = replace(self._prepared, checkpoint=checkpoint)
            self._prepared = None

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or condition())
            if self._stopping:
                raise EpochsStopped("the job is being stopped", sink=self.uid)

    def _is_settled(self) -> bool:
        return self._open is None or self._has_failed(self._open)

    def _has_failed(self, transaction: Transaction) -> bool:
        return transaction.checkpoint in self._failed

    def abort_failed(self) -> None:
        """Abort the transaction of a failed checkpoint; its rows wait for the next one."""
        transaction = self._open
        if transaction is None or not self._has_failed(transaction):
            return
        if self._is_unstaged(transaction):
            with self._changed:
                self._prepared, self._open = transaction, None
            return
        self._abort(transaction.handle)
        with self._changed:
            self._open = None
            self._next = transaction.first

    def kept_segments(self, checkpoint: int) -> range:
        """The segments that must be part of a checkpoint because its commit needs them."""
        transaction = self._open
        if transaction is None or transaction.checkpoint > checkpoint or not self.keeps_rows:
            return range(0)
        return range(transaction.first, transaction.end)

    # From other threads

    def pending(self, checkpoint: int) -> list[Transaction]:
        """Transactions that this checkpoint promises to commit."""
        with self._changed:
            found = self._open
            return [found] if found is not None and found.checkpoint <= checkpoint else []

    def look(self) -> OpenTransaction | None:
        """What is open, for people to see."""
        with self._changed:
            found = self._open or self._prepared
            if found is None:
                return None
            is_open = found is self._open
            is_promised = is_open and found.checkpoint <= self._promised
            has_failed = is_open and self._has_failed(found) and not self._is_unstaged(found)
        return OpenTransaction(found, is_promised, has_failed, self._sink.describe(found.handle))

    def promise(self, checkpoint: int) -> None:
        """The checkpoint is complete: its transactions will be committed."""
        with self._changed:
            self._promised = max(self._promised, checkpoint)
            self._newest = max(self._newest, checkpoint)
            # Pre-commits come in the order of checkpoints: nobody asks for older ones again.
            self._failed = {failed for failed in self._failed if failed > checkpoint}

    def fail(self, checkpoint: int) -> None:
        """The checkpoint has failed; ``abort_failed`` does the rest."""
        with self._changed:
            self._failed.add(checkpoint)
            self._newest = max(self._newest, checkpoint)
            self._changed.notify_all()

    def commit(self, checkpoint: int) -> None:
        """Let the rows appear that a completed checkpoint promised."""
        for transaction in self.pending(checkpoint):
            self._check()
            with step("commit", self.uid):
                self._sink.commit(self._epoch(transaction), transaction.handle)
            self._settlements.record(transaction.checkpoint)
            self._gates.sink_done(self.region, self.uid, transaction.end)
            if self._is_unstaged(transaction):
                self._unstaged.forget(transaction.first)
            with self._changed:
                self._open = None
                self._changed.notify_all()

    def refused(self) -> None:
        """A try to commit has failed; another one will come."""
        self._gates.sink_refused(self.region, self.uid)

    def stop(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def abort_unowned(self) -> None:
        """The job is over: forget the rows that no completed checkpoint covers.

        What one has promised and could not be committed stays, for a restore from it.
        """
        if self._open is not None and self._open.checkpoint > self._promised:
            self._abort(self._open.handle)
        if self._prepared is not None:
            self._abort(self._prepared.handle)

    def _abort(self, handle: Handle) -> None:
        with step("abort", self.uid):
            self._sink.abort(handle)

    def _epoch(self, transaction: Transaction, with_rows: bool = False) -> Epoch:
        wanted = with_rows or self.keeps_rows
        batches = range(transaction.first, transaction.end) if wanted else range(0)
        return Epoch(
            self._job_id,
            self._attempt,
            self.uid,
            transaction.checkpoint,
            [self._segment(batch) for batch in batches],
            self._spark,
            self._schema,
            check=self._check,
        )

    def _segment(self, batch: int) -> EpochSegment:
        segment = self._channel.get(batch)
        paths = tuple(self._channel.paths(batch, batch + 1))
        return EpochSegment(batch, paths, segment.size, tuple(size for _, size in segment.files))


def owned_transactions(latest: CheckpointMetadata | None) -> Mapping[str, list[Transaction]]:
    """By sink, what the newest completed checkpoint has promised to commit."""
    owned: dict[str, list[Transaction]] = {}
    for transaction in latest.transactions if latest is not None else ():
        owned.setdefault(transaction.sink, []).append(transaction)
    return owned
