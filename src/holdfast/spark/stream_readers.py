"""How executors read a steered source: Spark's Parquet reader, and Spark's own row generator."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.spark.file_tasks import Limits, share_out
from holdfast.spark.jvm_names import java_class, scala_object, string_map
from holdfast.spark.partitioned_files import PartitionedFiles
from holdfast.spark.steering import FileSteering, RangeSteering

_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"

# In Spark's order. Its timestamp is one per batch, and set to zero here.
_RANGE_SCHEMA = "batch_time timestamp not null, value bigint not null"

# The session may tell Spark to skip such files; here that would lose rows without a word.
_STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


class ParquetReader:
    """Spark's vectorised Parquet reader for the files that a steering names."""

    def __init__(self, spark: SparkSession, schema: StructType, steering: FileSteering) -> None:
        self._session: Any = spark._jsparkSession
        self._gateway: Any = spark.sparkContext._gateway
        self._steering = steering
        self.schema: Any = self._session.parseDataType(schema.json())
        self._files = PartitionedFiles(self._gateway)
        # Looking up a class by its name costs as much as calling it.
        sql = self._gateway.jvm.org.apache.spark.sql
        self._java_task: Any = sql.execution.datasources.FilePartition
        self._java_partition: Any = sql.connector.read.InputPartition

    def plan(self, start: str, end: str) -> Any:
        """The files between two offsets, shared out among tasks."""
        tasks = share_out(self._steering.files(start, end), self._limits())
        partitions = self._gateway.new_array(self._java_partition, len(tasks))
        for number, files in enumerate(self._files.make(tasks)):
            partitions[number] = self._java_task(number, files)
        return partitions

    def _limits(self) -> Limits:
        conf = self._session.sessionState().conf()
        return Limits(
            most_bytes=conf.filesMaxPartitionBytes(),
            open_cost=conf.filesOpenCostInBytes(),
            parallelism=self._session.leafNodeDefaultParallelism(),
        )

    def factory(self) -> Any:
        """One for all batches: making it sends Hadoop's settings to the executors."""
        return self._factory

    @cached_property
    def _factory(self) -> Any:
        return parquet_factory(self._gateway, self._session, self.schema)


def parquet_factory(gateway: Any, session: Any, schema: Any) -> Any:
    """Spark's reader of Parquet files, as executors make it. All are Java objects."""
    # Built by hand, the factory would lack settings that only a scan of a table adds.
    jvm = gateway.jvm
    options = string_map(jvm, _STRICT)
    table = jvm.org.apache.spark.sql.execution.datasources.v2.parquet.ParquetTable(
        "parquet",
        session,
        options,
        jvm.PythonUtils.toSeq([]),
        jvm.scala.Some(schema),
        java_class(jvm, _PARQUET),
    )
    return table.newScanBuilder(options).build().createReaderFactory()


class RangeReader:
    """Rows made on the executors by Spark's ``rate-micro-batch`` source, for any range."""

    def __init__(self, spark: SparkSession, steering: RangeSteering, partitions: int) -> None:
        self._gateway: Any = spark.sparkContext._gateway
        self._steering = steering
        self._partitions = partitions
        sql = self._gateway.jvm.org.apache.spark.sql
        self.schema: Any = sql.types.StructType.fromDDL(_RANGE_SCHEMA)
        sources = sql.execution.streaming.sources
        self._java_partition: Any = sql.connector.read.InputPartition
        self._java_task: Any = sources.RatePerMicroBatchStreamInputPartition
        self._factory: Any = scala_object(sources, "RatePerMicroBatchStreamReaderFactory")

    def plan(self, start: str, end: str) -> Any:
        """Task i of n makes the rows first + i, first + i + n, first + i + 2n …"""
        first, behind = self._steering.rows(start, end)
        count = min(self._partitions, max(behind - first, 0))
        tasks = self._gateway.new_array(self._java_partition, count)
        for number in range(count):
            tasks[number] = self._java_task(number, count, first, 0, behind, 0)
        return tasks

    def factory(self) -> Any:
        """It has no settings."""
        return self._factory
