"""Sinks for stores that cannot prepare a transaction.

The rows of an epoch stay staged, and a copy of them is part of the checkpoint. When it is complete
they are written in **one** transaction of the store together with a marker row that names job, sink
and checkpoint. A commit that finds its marker has been done before and does nothing. So after any
crash the rows are there once, and readers never see a part of an epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.sinks.arrow_tasks import map_batches
from holdfast.sinks.interface import Epoch, Handle
from holdfast.sinks.keys import (
    column,
    newest_by_key,
    null_key,
    refuse_missing_key,
    refuse_null_keys,
)
from holdfast.steps import step

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Marker:
    """Which epoch a transaction has written."""

    job_id: str
    sink: str
    checkpoint: int


class WriteAheadSink(ABC):
    """What users subclass. The object is pickled to the one task that writes an epoch."""

    key: Sequence[str] = ()
    """As in ``TwoPhaseCommitSink``: of rows with the same key only the newest is given to it."""

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: B027
        """On the driver, before the first row: raise ``UsageError`` if it cannot work."""

    @abstractmethod
    def write(self, marker: Marker, batches: Iterator[pa.RecordBatch]) -> None:
        """In one transaction: nothing if the marker is there, else all rows and the marker.

        Also without any rows, when somebody leaves an epoch out by hand.
        """

    def describe(self) -> str:
        """One line for a person: where do the rows go?"""
        return type(self).__name__

    def close(self) -> None:  # noqa: B027
        """End connections. The object may be used again."""


class WriteAhead:
    """An ``EpochSink`` made of a user's sink."""

    keeps_rows = True

    def __init__(self, sink: WriteAheadSink) -> None:
        self._sink = sink

    def check(self, spark: SparkSession, schema: StructType) -> None:
        """The sink's own checks, and that its key is there."""
        refuse_missing_key(self._sink.key, schema)
        try:
            self._sink.check(spark, schema)
        finally:
            self._sink.close()

    def pre_commit(self, epoch: Epoch) -> Handle:
        """The rows are staged already; remember which job did that.

        What can be known to fail must fail here: a commit would be tried for ever.
        """
        if epoch.files and self._sink.key:
            _refuse_null_keys(epoch, self._sink.key)
        return {"checkpoint": epoch.checkpoint, "job_id": epoch.job_id}

    def commit(self, epoch: Epoch, handle: Handle) -> None:
        """Write everything, in one task."""
        if not epoch.files:
            return
        key = list(self._sink.key)
        rows = newest_by_key(epoch, key, 1) if key else epoch.rows().coalesce(1)
        marker = Marker(handle["job_id"], epoch.sink, handle["checkpoint"])
        map_batches(rows, _Writing(self._sink, marker, tuple(key)), "done boolean").collect()

    def recover_and_commit(self, epoch: Epoch, handle: Handle) -> None:
        """The marker tells whether there is anything to do."""
        self.commit(epoch, handle)

    def abort(self, handle: Handle) -> None:
        """Nothing has left the job yet."""

    def drop(self, handle: Handle, sink: str) -> None:
        """An epoch without rows: when it is committed again, its marker is there."""
        try:
            self._sink.write(Marker(handle["job_id"], sink, handle["checkpoint"]), iter(()))
        finally:
            self._sink.close()

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:  # noqa: ARG002
        """The store knows of none."""
        return ()

    def describe(self, handle: Handle) -> list[str]:  # noqa: ARG002
        """Where the rows will go."""
        return [self._sink.describe()]


def _refuse_null_keys(epoch: Epoch, key: Sequence[str]) -> None:
    for name in key:
        if epoch.rows().where(column(name).isNull()).limit(1).count():
            raise null_key(name, epoch.sink)


@dataclass(frozen=True, slots=True)
class _Writing:
    """What the task does."""

    sink: WriteAheadSink
    marker: Marker
    key: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            with step("write", self.marker.sink):
                self.sink.write(self.marker, self._checked(batches))
        finally:
            self.sink.close()
        yield from ()

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            refuse_null_keys(rows, self.key, self.marker.sink)
            if rows.num_rows:
                yield rows
