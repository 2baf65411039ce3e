"""What a sink is to the runtime: it takes epochs (exactly once), or batches.

Users write ``TwoPhaseCommitSink`` or ``WriteAheadSink``; both become an ``EpochSink`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Handle = Mapping[str, Any]
"""What a sink needs to commit or abort a transaction, as JSON values. It travels in checkpoints."""


@dataclass(frozen=True, slots=True)
class EpochSegment:
    """The rows of one batch, durable in the job's working directory as Parquet files."""

    batch: int
    files: tuple[str, ...]
    size: int
    sizes: tuple[int, ...] = ()
    """Of each file; a sink that keeps rows is told them."""


def nobody_else() -> None:
    """No other runner can have the job."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The rows between two barriers: what one transaction is about."""

    job_id: str
    attempt: int
    sink: str
    checkpoint: int
    segments: Sequence[EpochSegment]
    spark: SparkSession
    schema: StructType
    batch: DataFrame | None = None
    """The rows themselves, if the epoch is one batch and they were not staged."""
    check: Callable[[], None] = nobody_else
    """Raises if another runner has replaced this one, whose transactions are then none of ours."""

    @property
    def files(self) -> list[str]:
        """All Parquet files, in the order of batches."""
        return [file for segment in self.segments for file in segment.files]

    def rows(self) -> DataFrame:
        """The rows as a DataFrame, read on executors."""
        if self.batch is not None:
            return self.batch
        if not self.files:
            return self.spark.createDataFrame([], self.schema)
        return self.spark.read.schema(self.schema).parquet(*self.files)


@runtime_checkable
class EpochSink(Protocol):
    """Rows become visible when the checkpoint that covers them completes.

    Rules for every implementation:

    1. After ``pre_commit`` returns, ``commit`` can succeed whatever dies in between, also when the
       job's working directory is lost. Nothing is visible yet. What an earlier ``pre_commit`` of
       the same sink has left behind, and nobody committed, is gone; but never what has the number
       of a later checkpoint, which is of a runner that has replaced this one.
    2. ``commit`` may be called again for a transaction that is committed; it then does nothing.
    3. ``abort`` leaves nothing of the transaction; of one that is unknown there is nothing to do.
       It is never called after ``commit``.
    4. ``pending`` lists every transaction of this job and sink that was pre-committed or begun and
       is neither committed nor aborted, also those of processes that died. Each handle has the
       number of its ``checkpoint``.
    5. Calls come from one thread at a time.
    """

    keeps_rows: bool
    """Whether ``commit`` needs the epoch's rows: they are then kept in the checkpoint too."""

    def check(self, spark: SparkSession, schema: StructType) -> None:
        """Before the first row: raise ``UsageError`` if rows of this schema cannot be written."""

    def pre_commit(self, epoch: Epoch) -> Handle:
        """Write the rows of an epoch and make sure that they can be committed."""

    def commit(self, epoch: Epoch, handle: Handle) -> None:
        """Make the rows visible. The epoch has segments only if the sink keeps rows."""

    def recover_and_commit(self, epoch: Epoch, handle: Handle) -> None:
        """Commit after a restart, when it is not known whether that has happened."""

    def abort(self, handle: Handle) -> None:
        """Forget the rows."""

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        """Transactions that are neither committed nor aborted."""

    def describe(self, handle: Handle) -> list[str]:
        """What a person should read about a transaction, a line for each part of it.

        From any thread at any time, beside the one that writes or commits: the store is not asked.
        """


@runtime_checkable
class InquiringSink(EpochSink, Protocol):
    """A sink whose store can tell more about a transaction than its handle says."""

    def inquire(self, handle: Handle) -> list[str]:
        """As ``describe``, but the store is asked, for a job that does not run.

        A store that does not answer is no error: the line says so.
        """


@runtime_checkable
class DroppingSink(EpochSink, Protocol):
    """A sink that keeps rows, and can be told to leave those of an epoch out."""

    def drop(self, handle: Handle, sink: str) -> None:
        """Mark the epoch as written without writing it: its rows are lost, for good.

        Nothing happens if it has been written.
        """


@runtime_checkable
class ClaimingSink(EpochSink, Protocol):
    """A sink that has names of its own in the store, which nobody else must use."""

    def claim(self, job_id: str, sink: str) -> None:
        """After ``check``, before anything else, at every start of the job.

        Whoever has used the names before is shut out, and what it has left open is ended. Raise
        ``UsageError`` if they are another job's.
        """


@runtime_checkable
class PlainSink(Protocol):
    """Rows are visible at once; after a crash the rows of the last batch may come again."""

    def write(self, rows: DataFrame, batch: int) -> None:
        """Take the rows of one batch, a DataFrame."""


@runtime_checkable
class CheckedSink(PlainSink, Protocol):
    """A plain sink that looks before the first row whether it can take them."""

    def check(self, spark: SparkSession, schema: StructType) -> None:
        """Raise ``UsageError`` if rows of this schema cannot be written."""
