"""Running a ``TwoPhaseCommitSink`` on executors: each part of an epoch is a transaction."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.sinks.arrow_tasks import map_batches
from holdfast.sinks.interface import Epoch, Handle
from holdfast.sinks.keys import newest_by_key, refuse_missing_key, refuse_null_keys
from holdfast.sinks.two_phase import Part, TwoPhaseCommitSink
from holdfast.steps import step

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Distributed:
    """An ``EpochSink`` made of a user's sink. Its handle lists the handles of all parts."""

    keeps_rows = False

    def __init__(self, sink: TwoPhaseCommitSink) -> None:
        self._sink = sink

    def check(self, spark: SparkSession, schema: StructType) -> None:
        """The sink's own checks, and that its key is there."""
        refuse_missing_key(self._sink.key, schema)
        try:
            self._sink.check(spark, schema)
        finally:
            self._sink.close()

    def pre_commit(self, epoch: Epoch) -> Handle:
        """Write all parts; whatever else the store holds of this and earlier epochs is aborted."""
        self._abort_others(epoch, ())
        handles: list[Handle] = []
        try:
            if epoch.batch is not None or epoch.files:
                handles = self._write(epoch)
        finally:
            epoch.check()  # that took its time
            # Of tasks that failed, or that ran twice.
            self._abort_others(epoch, handles)
        return {"checkpoint": epoch.checkpoint, "parts": handles}

    def _write(self, epoch: Epoch) -> list[Handle]:
        key = list(self._sink.key)
        tasks = self._sink.parallelism or epoch.spark.sparkContext.defaultParallelism
        rows = newest_by_key(epoch, key, tasks) if key else _in_tasks(epoch, tasks)
        writing = _Writing(self._sink, epoch.job_id, epoch.sink, epoch.checkpoint, tuple(key))
        collected = map_batches(rows, writing, "handle string").collect()
        return [json.loads(row[0]) for row in collected]

    def _abort_others(self, epoch: Epoch, ours: Sequence[Handle]) -> None:
        """But for later ones: numbers only grow, so those are of a runner that has replaced us."""
        known = [_identity(handle) for handle in ours]
        try:
            for handle in self._sink.pending(epoch.job_id, epoch.sink):
                if handle["checkpoint"] <= epoch.checkpoint and _identity(handle) not in known:
                    self._sink.abort(handle)
        finally:
            self._sink.close()

    def commit(self, epoch: Epoch, handle: Handle) -> None:
        """Commit each part."""
        try:
            for part in handle["parts"]:
                with step("part", epoch.sink):
                    self._sink.commit(part)
        finally:
            self._sink.close()

    def recover_and_commit(self, epoch: Epoch, handle: Handle) -> None:  # noqa: ARG002
        """Commit each part after a restart."""
        try:
            for part in handle["parts"]:
                self._sink.recover_and_commit(part)
        finally:
            self._sink.close()

    def abort(self, handle: Handle) -> None:
        """Abort each part."""
        try:
            for part in handle["parts"]:
                self._sink.abort(part)
        finally:
            self._sink.close()

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        """Parts that the store holds, by checkpoint."""
        by_checkpoint: dict[int, list[Handle]] = {}
        try:
            for part in self._sink.pending(job_id, sink):
                by_checkpoint.setdefault(part["checkpoint"], []).append(part)
        finally:
            self._sink.close()
        return [{"checkpoint": n, "parts": parts} for n, parts in sorted(by_checkpoint.items())]

    def describe(self, handle: Handle) -> list[str]:
        """A line for each part."""
        return [self._sink.describe(part) for part in handle["parts"]]

    def inquire(self, handle: Handle) -> list[str]:
        """A line for each part, with what the store says of it."""
        try:
            return [self._sink.inquire(part) for part in handle["parts"]]
        finally:
            self._sink.close()


@dataclass(frozen=True, slots=True)
class _Writing:
    """What a task does: one transaction around all of its rows. Puts out the handle."""

    sink: TwoPhaseCommitSink
    job_id: str
    uid: str
    checkpoint: int
    key: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        try:
            handle = self._write(batches)
        finally:
            self.sink.close()
        if handle is not None:
            yield pa.RecordBatch.from_pydict({"handle": [json.dumps(dict(handle))]})

    def _write(self, batches: Iterable[pa.RecordBatch]) -> Handle | None:
        handle = None
        try:
            for rows in batches:
                if rows.num_rows == 0:
                    continue
                refuse_null_keys(rows, self.key, self.uid)
                if handle is None:
                    with step("begin", self.uid):
                        handle = self.sink.begin(self._part())
                with step("invoke", self.uid):
                    self.sink.invoke(handle, rows)
            if handle is not None:
                with step("prepare", self.uid):
                    self.sink.pre_commit(handle)
        except BaseException:
            if handle is not None:
                with suppress(Exception):  # what made it fail is what is told
                    self.sink.abort(handle)
            raise
        return handle

    def _part(self) -> Part:
        from pyspark import TaskContext

        task = TaskContext.get()
        number = task.partitionId() if task is not None else 0
        return Part(self.job_id, self.uid, self.checkpoint, number, secrets.token_hex(4))


def _in_tasks(epoch: Epoch, tasks: int) -> DataFrame:
    """The rows of an epoch, for at most so many tasks."""
    if epoch.batch is not None:
        # ``coalesce`` would compute the batch itself, the region's last stage, in so few tasks.
        return epoch.rows().repartition(tasks)
    return epoch.rows().coalesce(tasks)


def _identity(handle: Handle) -> str:
    return json.dumps(dict(handle), sort_keys=True)
