"""Staged files are read in the order that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from holdfast.spark.ordered_files import rows_in_order
from holdfast.spark.steering import DataFile


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> list[DataFile]:
    """The larger ones last: Spark itself would take them first."""
    for name, (first, count) in {"a": (0, 10), "b": (10, 5000), "c": (5010, 20_000)}.items():
        rows = spark.range(first, first + count, 1, 1)
        rows.selectExpr("id", "array(named_struct('k', id)) AS nested").write.parquet(
            str(tmp_path / name)
        )
    found = [next((tmp_path / name).glob("*.parquet")) for name in "abc"]
    return [DataFile(str(file), file.stat().st_size) for file in found]


@pytest.mark.parametrize("tasks", [1, 3])
def test_each_task_has_all_rows_in_the_order_of_the_files(
    spark: SparkSession, files: list[DataFile], tasks: int
) -> None:
    schema = spark.read.parquet(files[0].location).schema
    rows = rows_in_order(spark, schema, files, tasks)
    assert rows.rdd.getNumPartitions() == tasks
    seen = rows.select(sf.spark_partition_id().alias("task"), "id").collect()
    for task in range(tasks):
        assert [row["id"] for row in seen if row["task"] == task] == list(range(25_010))
    assert rows.where("id = 5").collect()[0] == Row(id=5, nested=[Row(k=5)])


def test_the_order_is_the_callers(spark: SparkSession, files: list[DataFile]) -> None:
    schema = spark.read.parquet(files[0].location).schema
    seen = [row["id"] for row in rows_in_order(spark, schema, files[::-1]).collect()]
    assert seen == [*range(5010, 25_010), *range(10, 5010), *range(10)]
