from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from holdfast.sources import generator
from holdfast.spark.progress import BatchListener

Heard = tuple[str, Any, Any]


class Ears:
    """Keeps what a listener heard, and waits for it."""

    def __init__(self) -> None:
        self._heard: Queue[Heard] = Queue()

    def batch(self, run_id: str, batch: int, report: dict[str, Any]) -> None:
        self._heard.put((run_id, batch, report))

    def end(self, run_id: str, error: str | None) -> None:
        self._heard.put((run_id, "end", error))

    def through_end_of(self, run_id: str) -> Iterator[Heard]:
        while True:
            heard = self._heard.get(timeout=60)
            if heard[0] == run_id:
                yield heard
                if heard[1] == "end":
                    return


def read(rows: DataFrame, batch: int) -> None:
    rows.collect()


def start(spark: SparkSession, log: Path, sink: Any = read) -> StreamingQuery:
    frame = generator(rows=40, rows_per_batch=10)(spark)
    return frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(log)).start()


def run(spark: SparkSession, log: Path) -> str:
    query = start(spark, log)
    query.processAllAvailable()
    query.stop()
    return str(query.runId)


def test_every_batch_is_heard_of_in_order_and_then_the_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    session, ears = spark.newSession(), Ears()
    with closing(BatchListener(session, ears.batch, ears.end)):
        run_id = run(session, tmp_path)
        *batches, end = ears.through_end_of(run_id)
    assert [batch for _, batch, _ in batches] == [0, 1, 2, 3]
    assert [report["numInputRows"] for _, _, report in batches] == [10] * 4
    assert end == (run_id, "end", None)


def test_a_batch_is_committed_before_it_is_heard_of(spark: SparkSession, tmp_path: Path) -> None:
    session, ears, committed = spark.newSession(), Ears(), []

    def look(run_id: str, batch: int, report: dict[str, Any]) -> None:
        committed.append((tmp_path / f"commits/{batch}").exists())

    with closing(BatchListener(session, look, ears.end)):
        list(ears.through_end_of(run(session, tmp_path)))
    assert committed == [True] * 4


def test_the_end_of_a_failed_query_has_its_error(spark: SparkSession, tmp_path: Path) -> None:
    def sink(rows: DataFrame, batch: int) -> None:
        if batch == 2:
            raise OSError("the sink is full")

    session, ears = spark.newSession(), Ears()
    with closing(BatchListener(session, ears.batch, ears.end)):
        query = start(session, tmp_path, sink)
        *batches, (_, _, error) = ears.through_end_of(str(query.runId))
    assert [batch for _, batch, _ in batches] == [0, 1]
    assert "the sink is full" in error


def test_an_exception_in_a_callback_is_logged_and_the_next_call_comes(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(run_id: str, batch: int, report: dict[str, Any]) -> None:
        raise KeyError(f"batch {batch} is odd")

    session, ears = spark.newSession(), Ears()
    with (
        caplog.at_level(logging.ERROR, "holdfast"),
        closing(BatchListener(session, fail, ears.end)),
    ):
        list(ears.through_end_of(run(session, tmp_path)))
    assert [f"batch {batch} is odd" in caplog.text for batch in range(4)] == [True] * 4


def test_a_closed_listener_hears_nothing(spark: SparkSession, tmp_path: Path) -> None:
    session, closed, ears = spark.newSession(), Ears(), Ears()
    listener = BatchListener(session, closed.batch, closed.end)
    listener.close()
    listener.close()
    with closing(BatchListener(session, ears.batch, ears.end)):
        list(ears.through_end_of(run(session, tmp_path)))
    assert closed._heard.empty()


def test_queries_of_other_sessions_are_not_heard(spark: SparkSession, tmp_path: Path) -> None:
    mine, other, ears = spark.newSession(), spark.newSession(), Ears()
    with closing(BatchListener(mine, ears.batch, ears.end)):
        run(other, tmp_path / "other")
        run_id = run(mine, tmp_path / "mine")
        assert {heard for heard, _, _ in ears.through_end_of(run_id)} == {run_id}
    assert ears._heard.empty()
