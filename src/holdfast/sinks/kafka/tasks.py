"""Giving the staged rows of an epoch to the tasks that send them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.sinks.arrow_tasks import map_batches
from holdfast.sinks.interface import Epoch
from holdfast.sinks.kafka.client import Cluster
from holdfast.sinks.kafka.rows import selected
from holdfast.sinks.kafka.sending import PartOfEpoch, send_part
from holdfast.spark.steering import DataFile
from holdfast.steps import step

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def send_epoch(
    cluster: Cluster, topic: str | None, epoch: Epoch, part: PartOfEpoch, parts: int
) -> None:
    """Send each part in a task of its own; ``part`` is like all of them but for its number."""
    from holdfast.spark.ordered_files import rows_in_order

    files = [
        DataFile(file, size)
        for segment in epoch.segments
        for file, size in zip(segment.files, segment.sizes, strict=True)
    ]
    rows = selected(rows_in_order(epoch.spark, epoch.schema, files, parts), topic)
    sending = _Sending(cluster, topic, part)
    map_batches(_shared_out(rows, parts), sending, "done boolean").collect()


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
