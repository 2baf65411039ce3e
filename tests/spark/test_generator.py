from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from holdfast.sources import Generator, generator
from tests.spark.running import as_json

COLUMNS = {
    "app": "concat('app', value % 7)",
    "at": "timestamp + interval 1 day",
    "größe": "cast(value AS decimal(20, 2)) / 3",
}


class Seen:
    """What a query emitted, batch by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = as_json(rows)

    def rows(self) -> Counter[str]:
        return Counter(row for rows in self.batches.values() for row in rows)


@contextmanager
def running(frame: DataFrame, log: Path, seen: Seen) -> Iterator[StreamingQuery]:
    query = (
        frame.writeStream.foreachBatch(seen)
        .outputMode("append")
        .option("checkpointLocation", str(log))
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def read_all(spark: SparkSession, source: Generator, log: Path) -> Seen:
    seen = Seen()
    with running(source(spark), log, seen) as query:
        query.processAllAvailable()
        source.stop()
    return seen


def test_the_stream_has_the_rows_of_the_recount(spark: SparkSession, tmp_path: Path) -> None:
    source = generator(rows=1000, rows_per_batch=300, start=17, partitions=3, columns=COLUMNS)
    seen = read_all(spark, source, tmp_path)
    assert {batch: len(rows) for batch, rows in seen.batches.items()} == {
        0: 300,
        1: 300,
        2: 300,
        3: 100,
    }
    assert seen.rows() == Counter(as_json(source.batch(spark, 17, 1017)))


def test_stream_and_recount_have_the_same_schema(spark: SparkSession) -> None:
    plain = generator(rows=1)
    assert plain(spark).schema == plain.batch(spark, 0, 1).schema
    assert plain(spark).dtypes == [("value", "bigint"), ("timestamp", "timestamp")]
    shaped = generator(rows=1, columns=COLUMNS)
    assert shaped(spark).schema == shaped.batch(spark, 0, 1).schema
    assert shaped(spark).columns == list(COLUMNS)


def test_row_numbers_may_be_large(spark: SparkSession, tmp_path: Path) -> None:
    start = 2**31 - 5
    source = generator(rows=10, rows_per_batch=4, start=start)
    seen = read_all(spark, source, tmp_path)
    assert seen.rows() == Counter(as_json(source.batch(spark, start, start + 10)))


def test_a_restart_goes_on_with_the_next_row(spark: SparkSession, tmp_path: Path) -> None:
    first = read_all(spark, generator(rows=50, rows_per_batch=20), tmp_path)
    whole = generator(rows=120, rows_per_batch=20)
    second = read_all(spark, whole, tmp_path)
    assert first.rows() + second.rows() == Counter(as_json(whole.batch(spark, 0, 120)))
    assert min(second.batches) == max(first.batches) + 1


def test_the_end_can_be_read_from_the_query_log(spark: SparkSession, tmp_path: Path) -> None:
    source = generator(rows=50, rows_per_batch=20)
    read_all(spark, source, tmp_path)
    ends = [(tmp_path / f"offsets/{n}").read_text().splitlines()[-1] for n in range(3)]
    assert [json.loads(end) for end in ends] == [{"row": 20}, {"row": 40}, {"row": 50}]
    assert [source.finished(end) for end in ends] == [False, False, True]


def test_rows_that_wait_for_a_watermark_are_emitted_without_new_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = generator(rows=100, columns={"at": "timestamp"})
    windows = (
        source(spark)
        .withWatermark("at", "0 seconds")
        .groupBy(sf.window("at", "10 milliseconds"))
        .count()
    )
    seen = Seen()
    with running(windows, tmp_path, seen) as query:
        query.processAllAvailable()
        source.stop()
    assert (len(seen.batches[0]), len(seen.batches[1])) == (0, 9)


def test_a_rate_lets_rows_through_bit_by_bit(spark: SparkSession, tmp_path: Path) -> None:
    source = generator(rows=60, rows_per_second=60)
    seen = Seen()
    with running(source(spark), tmp_path, seen) as query:
        while sum(map(len, seen.batches.values())) < 60 and query.isActive:
            query.processAllAvailable()
        source.stop()
    assert len(seen.batches) > 1
    assert seen.rows() == Counter(as_json(source.batch(spark, 0, 60)))


def test_an_idle_query_stops_when_its_generator_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = generator(rows=0)
    with running(source(spark), tmp_path, Seen()) as query:
        source.stop()
    assert query.exception() is None


def test_no_python_worker_makes_the_rows(spark: SparkSession) -> None:
    plan = generator(rows=1, columns=COLUMNS)(spark)._jdf.queryExecution().toString()
    assert "Python" not in plan
