"""What a sink is: two-phase (exactly once) or plain (at least once)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

Handle = Mapping[str, Any]
"""What a sink needs to commit or abort a transaction, as JSON values. It travels in checkpoints."""


@dataclass(frozen=True, slots=True)
class EpochSegment:
    """The rows of one batch, durable in the job's working directory as Parquet files."""

    batch: int
    files: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """The rows between two barriers: what one transaction is about."""

    job_id: str
    attempt: int
    sink: str
    checkpoint: int
    segments: Sequence[EpochSegment]
    spark: Any
    schema: Any

    def rows(self) -> Any:
        """The rows as a DataFrame, read on executors."""
        paths = [file for segment in self.segments for file in segment.files]
        if not paths:
            return self.spark.createDataFrame([], self.schema)
        return self.spark.read.schema(self.schema).parquet(*paths)


@runtime_checkable
class TwoPhaseSink(Protocol):
    """Rows become visible when the checkpoint that covers them completes.

    Rules for every implementation:

    1. After ``pre_commit`` returns, ``commit`` can succeed whatever dies in between, also when the
       job's working directory is lost. Nothing is visible yet.
    2. ``commit`` may be called again for a transaction that is committed; it then does nothing.
    3. ``abort`` leaves nothing of the transaction; of one that is unknown there is nothing to do.
       It is never called after ``commit``.
    4. ``pending`` lists every transaction of this job that was pre-committed or begun and is
       neither committed nor aborted, also those of processes that died.
    """

    def pre_commit(self, epoch: Epoch) -> Handle:
        """Write the rows of an epoch and make sure that they can be committed."""

    def commit(self, handle: Handle) -> None:
        """Make the rows visible."""

    def recover_and_commit(self, handle: Handle) -> None:
        """Commit after a restart, when it is not known whether that has happened."""

    def abort(self, handle: Handle) -> None:
        """Forget the rows."""

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        """Transactions that are neither committed nor aborted."""


@runtime_checkable
class PlainSink(Protocol):
    """Rows are visible at once; after a crash the rows of the last batch may come again."""

    def write(self, rows: Any, batch: int) -> None:
        """Take the rows of one batch, a DataFrame."""
