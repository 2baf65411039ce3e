"""Giving the staged rows of an epoch to the tasks that send them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.sinks.arrow_tasks import map_batches
from holdfast.sinks.interface import Epoch
from holdfast.sinks.kafka.client import Cluster
from holdfast.sinks.kafka.rows import selected, used
from holdfast.sinks.kafka.sending import PartOfEpoch, send_part
from holdfast.sinks.kafka.staged import is_on_disk, rows_of
from holdfast.spark.steering import DataFile
from holdfast.steps import step

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NO_ROWS = "done boolean"


def send_epoch(
    cluster: Cluster, topic: str | None, epoch: Epoch, part: PartOfEpoch, parts: int
) -> None:
    """Send each part in a task of its own; ``part`` is like all of them but for its number."""
    sending = _Sending(cluster, topic, part)
    if parts == 1 and is_on_disk(epoch.files):
        columns = tuple(used(epoch.schema, topic))
        reading = _Reading(sending, tuple(epoch.files), columns)
        map_batches(epoch.spark.range(0, 1, 1, 1), reading, _NO_ROWS).collect()
    else:
        map_batches(_rows_by_spark(epoch, topic, parts), sending, _NO_ROWS).collect()


def _rows_by_spark(epoch: Epoch, topic: str | None, parts: int) -> DataFrame:
    from holdfast.spark.ordered_files import rows_in_order

    files = [
        DataFile(file, size)
        for segment in epoch.segments
        for file, size in zip(segment.files, segment.sizes, strict=True)
    ]
    rows = rows_in_order(epoch.spark, epoch.schema, files, parts)
    return _shared_out(selected(rows, topic), parts)


def _shared_out(rows: DataFrame, parts: int) -> DataFrame:
    """Every task has all rows; each keeps its own. The same ones whenever it is done again.

    Rows of one key are in one part, those without a key are shared out by their value.
    """
    from pyspark.sql import functions as sf

    if parts == 1:
        return rows
    by = [sf.col(name).cast("binary") for name in ("key", "value") if name in rows.columns]
    part = sf.pmod(sf.xxhash64(sf.coalesce(*by)), sf.lit(parts))
    return rows.where(part == sf.spark_partition_id())


@dataclass(frozen=True, slots=True)
class _Sending:
    """What a task does."""

    cluster: Cluster
    topic: str | None
    part: PartOfEpoch

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        part = replace(self.part, number=task.partitionId() if task is not None else 0)
        with step("write", part.sink):
            send_part(self.cluster, part, batches, self.topic)
        yield from ()


@dataclass(frozen=True, slots=True)
class _Reading:
    """The same, by the one task that opens the files itself."""

    sending: _Sending
    files: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # Python's process is only used again if it has read its input
            pass
        return self.sending(rows_of(self.files, self.columns))
