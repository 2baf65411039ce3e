"""Two-phase sinks of a job: which rows belong to which transaction, and what became of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.checkpoints.metadata import CheckpointMetadata, Transaction
from holdfast.protocol.graph import SinkUse
from holdfast.runtime.channels import Channel
from holdfast.runtime.gates import Gates
from holdfast.sinks import Epoch, EpochSegment, TwoPhaseSink
from holdfast.steps import step


class SinkEpochs:
    """One two-phase sink.

    A transaction is named after the checkpoint at whose barrier it was pre-committed. It is
    committed when that checkpoint or a later one completes; until then it is pending and travels
    in every checkpoint. If its checkpoint fails it simply stays pending.
    """

    def __init__(
        self, use: SinkUse, job_id: str, attempt: int, channel: Channel, gates: Gates
    ) -> None:
        self.uid = use.uid
        self.region = use.region
        self._sink: TwoPhaseSink = use.sink
        self._job_id = job_id
        self._attempt = attempt
        self._channel = channel
        self._gates = gates
        self._lock = threading.Lock()
        self._next = 0
        """The first segment that is in no transaction yet."""
        self._ends: dict[int, int] = {}
        self._pending: dict[int, Transaction] = {}
        self._promised = 0
        """The newest checkpoint that has completed."""

    def recover(self, owned: Sequence[Transaction], position: int) -> None:
        """After a restart: commit what a completed checkpoint owns, abort everything else.

        ``position`` is where the rows begin that no completed checkpoint covers.
        """
        with step("recover"):
            promised = {transaction.checkpoint for transaction in owned}
            for transaction in owned:
                self._sink.recover_and_commit(transaction.handle)
            for handle in self._sink.pending(self._job_id, self.uid):
                if handle["checkpoint"] not in promised:
                    self._sink.abort(handle)
        self._next = position
        self._gates.sink_done(self.region, self.uid, position)

    def pre_commit(self, checkpoint: int, cut: int, spark: Any, schema: Any) -> None:
        """Put the rows up to the cut that are in no transaction yet into one.

        Called in the order of checkpoints. If it fails, the rows go into the next transaction.
        """
        if self._next > cut:
            return
        segments = [self._segment(batch) for batch in range(self._next, cut + 1)]
        epoch = Epoch(self._job_id, self._attempt, self.uid, checkpoint, segments, spark, schema)
        with step("precommit"):
            handle = self._sink.pre_commit(epoch)
        with self._lock:
            self._pending[checkpoint] = Transaction(self.uid, checkpoint, handle)
            self._ends[checkpoint] = self._next = cut + 1

    def _segment(self, batch: int) -> EpochSegment:
        segment = self._channel.get(batch)
        return EpochSegment(batch, tuple(self._channel.paths(batch, batch + 1)), segment.size)

    def pending(self, checkpoint: int) -> list[Transaction]:
        """Transactions that this checkpoint promises to commit."""
        with self._lock:
            return [t for n, t in sorted(self._pending.items()) if n <= checkpoint]

    def commit(self, checkpoint: int) -> None:
        """The checkpoint is complete: let the rows appear."""
        self._promised = max(self._promised, checkpoint)
        for transaction in self.pending(checkpoint):
            with step("commit"):
                self._sink.commit(transaction.handle)
            with self._lock:
                del self._pending[transaction.checkpoint]
                end = self._ends.pop(transaction.checkpoint)
            self._gates.sink_done(self.region, self.uid, end)

    def abort(self) -> None:
        """The job is over: forget the rows that no completed checkpoint covers.

        What one has promised and could not be committed stays pending, for a restore from it.
        """
        with self._lock:
            unowned = [t for n, t in self._pending.items() if n > self._promised]
            self._pending = {n: t for n, t in self._pending.items() if n <= self._promised}
        for transaction in unowned:
            self._sink.abort(transaction.handle)


def owned_transactions(latest: CheckpointMetadata | None) -> Mapping[str, list[Transaction]]:
    """By sink, what the newest completed checkpoint has promised to commit."""
    owned: dict[str, list[Transaction]] = {}
    for transaction in latest.transactions if latest is not None else ():
        owned.setdefault(transaction.sink, []).append(transaction)
    return owned
