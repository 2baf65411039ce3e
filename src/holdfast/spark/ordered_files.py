"""Reading Parquet files in a given order.

Spark's own reader sorts files by size and cuts them in pieces, as it needs no order. Here each task
reads all files from the first to the last, so its rows come as they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.spark.file_tasks import Piece
from holdfast.spark.jvm_names import scala_object
from holdfast.spark.partitioned_files import PartitionedFiles
from holdfast.spark.steering import DataFile
from holdfast.spark.stream_readers import parquet_factory


def rows_in_order(
    spark: SparkSession, schema: StructType, files: Sequence[DataFile], tasks: int = 1
) -> DataFrame:
    """A frame of so many partitions, **each** with all rows of the files, in order.

    Who has more than one task lets each leave out what the others take.
    """
    gateway: Any = spark.sparkContext._gateway
    session: Any = spark._jsparkSession
    java_schema = session.parseDataType(schema.json())
    pieces = [Piece(file, 0, file.size) for file in files]
    (array,) = PartitionedFiles(gateway).make([pieces])
    sql, seq = gateway.jvm.org.apache.spark.sql, gateway.jvm.PythonUtils.toSeq
    some, partition = gateway.jvm.scala.Some, sql.execution.datasources.FilePartition
    partitions = [some(partition(number, array)) for number in range(tasks)]
    rows = sql.execution.datasources.v2.DataSourceRDD(
        spark.sparkContext._jsc.sc(),
        seq(partitions),
        parquet_factory(gateway, session, java_schema),
        False,  # rows, not columns
        scala_object(gateway.jvm.scala.collection.immutable, "Map").empty(),
    )
    return DataFrame(session.internalCreateDataFrame(rows, java_schema, False), spark)
