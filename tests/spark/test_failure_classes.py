"""Queries that really fail, in each of the ways there are, and of which class they are then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import holdfast as hf
from holdfast.protocol.causes import Classified, FailureClass, classify
from holdfast.spark.failures import causes_of, causes_of_query

LOST = FailureClass.PARTITION_DATA_MISSING
NEVER = FailureClass.NON_RECOVERABLE


def rows(spark: SparkSession, count: int = 20) -> Any:
    return hf.sources.generator(rows=count, rows_per_batch=10)(spark)


def failed(frame: Any, log: Path, sink: Callable[..., None] | None = None) -> Classified:
    """Run a query until it fails."""
    writer = frame.writeStream.option("checkpointLocation", str(log)).outputMode("update")
    writer = writer.foreachBatch(sink) if sink else writer.format("noop")
    query = writer.start()
    with pytest.raises(Exception):  # noqa: B017, PT011
        query.awaitTermination(90)
    assert query.exception() is not None, "the query did not fail"
    return classify(causes_of_query(query))


def in_python(function: Callable[[int], int], spark: SparkSession, log: Path) -> Classified:
    return failed(rows(spark).select(sf.udf(function, "long")("value")), log)


def divided(value: int) -> int:
    return value // 0


def killed(value: int) -> int:
    os._exit(7)


def full(value: int) -> int:
    raise OSError(28, "No space left on device")


def test_a_function_that_raises_is_the_users_own(spark: SparkSession, tmp_path: Path) -> None:
    found = in_python(divided, spark, tmp_path / "log")
    assert found.kind is NEVER
    assert "ZeroDivisionError" in found.why


def test_a_worker_that_dies_is_the_environments(spark: SparkSession, tmp_path: Path) -> None:
    assert in_python(killed, spark, tmp_path / "log").kind is FailureClass.ENVIRONMENT


def test_a_full_disk_is_the_environments(spark: SparkSession, tmp_path: Path) -> None:
    assert in_python(full, spark, tmp_path / "log").kind is FailureClass.ENVIRONMENT


def test_a_value_that_cannot_be_cast_stays_that_way(spark: SparkSession, tmp_path: Path) -> None:
    frame = rows(spark).selectExpr("CAST(concat('x', value) AS INT) AS n")
    assert failed(frame, tmp_path / "log").kind is NEVER


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionRefusedError("no server"), FailureClass.RECOVERABLE),
        (TimeoutError("too slow"), FailureClass.RECOVERABLE),
        (ValueError("no such thing"), NEVER),
        (PermissionError(13, "Permission denied"), NEVER),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Exception) else item.name,
)
def test_what_a_sinks_function_raises_tells(
    spark: SparkSession, tmp_path: Path, error: Exception, kind: FailureClass
) -> None:
    def sink(frame: Any, batch: int) -> None:
        raise error

    assert failed(rows(spark), tmp_path / "log", sink).kind is kind


@pytest.mark.parametrize("backend", ["HDFSBacked", "RocksDB"])
def test_state_that_is_gone_is_missing_data(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    session = spark.newSession()
    provider = f"org.apache.spark.sql.execution.streaming.state.{backend}StateStoreProvider"
    session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    log = tmp_path / "log"
    source = hf.sources.generator(rows=20, rows_per_batch=10)

    def counted() -> Any:
        return source(session).groupBy((sf.col("value") % 3).alias("k")).count()

    query = (
        counted()
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(log))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    for file in log.glob("state/0/*/*"):
        if file.suffix in (".delta", ".snapshot", ".zip", ".changelog"):
            file.unlink()
    (log / "commits" / "1").unlink()  # so that batch 1 runs again
    (log / "commits" / ".1.crc").unlink(missing_ok=True)
    # What an executor still has in memory would hide the loss, as after a restart it cannot.
    session.sparkContext._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    assert failed(counted(), log).kind is LOST


def test_a_file_of_the_input_that_is_gone_is_missing_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    spark.range(10).write.parquet(str(tmp_path / "in" / "a"))

    def sink(frame: Any, batch: int) -> None:
        for file in (tmp_path / "in" / "a").glob("*.parquet"):
            file.unlink(missing_ok=True)
        frame.collect()

    frame = spark.readStream.schema("id long").parquet(str(tmp_path / "in" / "*"))
    assert failed(frame, tmp_path / "log", sink).kind is LOST


def test_two_queries_on_one_log_are_two_runners(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def sink(frame: Any, batch: int) -> None:
        (log / "offsets" / str(batch + 1)).write_text("v1\n{}\nx")

    assert failed(rows(spark), log, sink).kind is NEVER


def test_our_own_errors_are_told_by_their_code() -> None:
    from holdfast.runtime.fencing import Fenced
    from holdfast.runtime.recovering import NothingToRestore

    for error in (Fenced("another"), NothingToRestore("nothing")):
        assert classify(causes_of(error)).kind is NEVER
