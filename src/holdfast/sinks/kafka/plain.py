"""Kafka topics, at least once: rows are sent with their batch, without transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.sinks.arrow_tasks import map_batches
from holdfast.sinks.kafka import checks, fitting
from holdfast.sinks.kafka.client import Cluster, Heard
from holdfast.sinks.kafka.rows import records, refuse_columns, selected
from holdfast.sinks.kafka.writers import Sender

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class KafkaPlain:
    """A plain sink: after a crash the rows of the last batch may come again."""

    def __init__(self, cluster: Cluster, topic: str | None, parallelism: int | None) -> None:
        self._cluster = cluster
        self._topic = topic
        self._parallelism = parallelism

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002
        """The columns fit, the cluster answers, the topic is there and may be written."""
        refuse_columns(schema, self._topic)
        checks.refuse_target(self._cluster, self._topic)
        if self._topic is not None:
            limits = checks.limits_of(self._cluster, [self._topic])
            self._cluster = self._cluster.with_batches_of(fitting.most_bytes(limits.values()))

    def write(self, rows: DataFrame, batch: int) -> None:  # noqa: ARG002
        """Send the rows; when this returns, the brokers have them."""
        chosen = selected(rows, self._topic)
        if self._parallelism is not None:
            chosen = chosen.coalesce(self._parallelism)
        map_batches(chosen, _Posting(self._cluster, self._topic), "done boolean").collect()


@dataclass(frozen=True, slots=True)
class _Posting:
    """What a task does."""

    cluster: Cluster
    topic: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        heard = Heard()
        writer = Sender(self.cluster, self.cluster.plain(heard), heard)
        try:
            for rows in batches:
                writer.send(records(rows, self.topic))
            writer.arrive()
        finally:
            writer.close()
        yield from ()
