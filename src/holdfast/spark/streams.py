"""Streaming sources that Python steers and Spark reads.

A steering answers on the driver how far to read and which files or rows that is; executors read
with Spark's own classes. No Python worker and no row passes through Python.
"""

from __future__ import annotations

from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from holdfast.errors import EnvironmentProblem
from holdfast.spark.jvm_names import scala_object, string_map
from holdfast.spark.steering import DataFile, FileSteering, RangeSteering, Steering
from holdfast.spark.stream_proxies import Reader, StreamTable
from holdfast.spark.stream_readers import ParquetReader, RangeReader

__all__ = [
    "DataFile",
    "FileSteering",
    "RangeSteering",
    "Steering",
    "parquet_stream",
    "range_stream",
]


def parquet_stream(
    spark: SparkSession, schema: StructType, steering: FileSteering, name: str
) -> DataFrame:
    """A streaming frame over Parquet files that ``steering`` names, batch by batch.

    ``schema`` is taken at its word, nullability included. Every column is read, also those that
    the query drops: Spark prunes columns of files only for its own file source.
    """
    _require_jvm(spark)
    return _stream(spark, name, steering, ParquetReader(spark, schema, steering))


def range_stream(
    spark: SparkSession, steering: RangeSteering, name: str, partitions: int
) -> DataFrame:
    """A streaming frame of numbered rows: ``value bigint``, ``timestamp timestamp``.

    ``value`` is the row number and ``timestamp`` that many milliseconds after 1970.
    """
    _require_jvm(spark)
    rows = _stream(spark, name, steering, RangeReader(spark, steering, partitions))
    return rows.select("value", sf.timestamp_millis("value").alias("timestamp"))


def _stream(spark: SparkSession, name: str, steering: Steering, reader: Reader) -> DataFrame:
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    sql, scala = gateway.jvm.org.apache.spark.sql, gateway.jvm.scala
    relation = scala_object(sql.catalyst.streaming, "StreamingRelationV2")
    none = scala_object(scala, "None")
    plan = relation.apply(
        none,
        name,
        StreamTable(gateway, name, steering, reader),
        string_map(gateway.jvm, {}),
        sql.catalyst.types.DataTypeUtils.toAttributes(reader.schema),
        none,
        none,
        none,
        getattr(relation, "apply$default$9")(),
    )
    rows = scala_object(sql.classic, "Dataset").ofRows(spark._jsparkSession, plan)
    return DataFrame(rows, spark)


def _require_jvm(spark: SparkSession) -> None:
    if not hasattr(spark, "_jvm"):
        raise EnvironmentProblem(
            "this Spark session has no JVM of its own (Spark Connect)",
            hint="Run the job in a classic Spark session.",
        )
