from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from holdfast.spark.streams import DataFile, parquet_stream, range_stream
from tests.spark.running import as_json


class Segments:
    """A log of segments, each some Parquet files; one segment per batch. Grows when told to."""

    def __init__(self, *segments: Sequence[DataFile], open_to: int | None = None) -> None:
        self.segments = segments
        self.open_to = len(segments) if open_to is None else open_to
        self.commits: list[int] = []

    def initial(self) -> str:
        return _offset(0)

    def latest(self, start: str | None) -> str:
        return _offset(min(_number(start or self.initial()) + 1, self.open_to))

    def newest(self) -> str:
        return _offset(self.open_to)

    def committed(self, end: str) -> None:
        self.commits.append(_number(end))

    def files(self, start: str, end: str) -> Sequence[DataFile]:
        chosen = self.segments[_number(start) : _number(end)]
        return [file for segment in chosen for file in segment]


class Numbers(Segments):
    """Rows 0 to 99, ten per batch."""

    def __init__(self) -> None:
        super().__init__(*[()] * 10)

    def rows(self, start: str, end: str) -> tuple[int, int]:
        return 10 * _number(start), 10 * _number(end)


def _offset(number: int) -> str:
    return json.dumps({"segment": number})


def _number(offset: str) -> int:
    return int(json.loads(offset)["segment"])


def written(rows: DataFrame, directory: Path) -> list[DataFile]:
    rows.write.parquet(str(directory))
    found = sorted(directory.glob("*.parquet"))
    return [DataFile(str(path), path.stat().st_size) for path in found]


@pytest.fixture(scope="module")
def segments(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[list[DataFile]]:
    """Six segments of ten numbers in two files each."""
    home = tmp_path_factory.mktemp("segments")
    return [
        written(spark.range(10 * n, 10 * n + 10, 1, 2), home / f"segment {n}") for n in range(6)
    ]


def ids(spark: SparkSession, steering: Segments, name: str = "numbers") -> DataFrame:
    return parquet_stream(spark, spark.range(0).schema, steering, name)


Batches = dict[int, list[str]]


@contextmanager
def running(frame: DataFrame, log: Path, seen: Batches) -> Iterator[StreamingQuery]:
    def collect(rows: DataFrame, batch: int) -> None:
        seen[batch] = as_json(rows)

    query = (
        frame.writeStream.foreachBatch(collect)
        .outputMode("update")
        .option("checkpointLocation", str(log))
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def read_all(frame: DataFrame, log: Path) -> Batches:
    """Run until there is nothing new, as long as the steering does not wait."""
    seen: Batches = {}
    with running(frame, log, seen) as query:
        query.processAllAvailable()
    return seen


def numbers(seen: Batches, column: str = "id") -> Counter[int]:
    return Counter(json.loads(row)[column] for rows in seen.values() for row in rows)


def test_each_batch_has_the_rows_of_its_files(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    seen = read_all(ids(spark, Segments(*segments)), tmp_path)
    assert {n: sorted(numbers({n: rows})) for n, rows in seen.items()} == {
        n: list(range(10 * n, 10 * n + 10)) for n in range(6)
    }


def test_a_batch_may_have_no_files(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    seen = read_all(ids(spark, Segments([], segments[0], [])), tmp_path)
    assert {batch: len(rows) for batch, rows in seen.items()} == {0: 0, 1: 10, 2: 0}


def test_a_restarted_query_goes_on_where_it_was(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    seen = read_all(ids(spark, Segments(*segments, open_to=3)), tmp_path)
    later = read_all(ids(spark, Segments(*segments)), tmp_path)
    assert (sorted(seen), sorted(later)) == ([0, 1, 2], [3, 4, 5])
    assert numbers(seen) + numbers(later) == Counter(range(60))


def test_a_batch_that_was_not_committed_is_read_again(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    first = read_all(ids(spark, Segments(*segments, open_to=3)), tmp_path)
    for name in ("commits/2", "commits/.2.crc"):
        (tmp_path / name).unlink()
    again = read_all(ids(spark, Segments(*segments, open_to=3)), tmp_path)
    assert again == {2: first[2]}


def test_state_counts_every_row_once_over_a_restart(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    for upto in (2, 6):
        frame = ids(spark, Segments(*segments, open_to=upto))
        seen = read_all(frame.groupBy((sf.col("id") % 7).alias("k")).count(), tmp_path)
    counts = [json.loads(row) for row in seen[5]]
    expected = Counter(number % 7 for number in range(60))
    assert all(row["count"] == expected[row["k"]] for row in counts)
    assert counts


def test_a_frame_can_be_united_with_itself(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    for upto in (1, 3):
        frame = ids(spark, Segments(*segments, open_to=upto))
        seen = read_all(frame.union(frame), tmp_path)
    assert numbers(seen) == Counter(dict.fromkeys(range(10, 30), 2))


def test_two_frames_can_be_united(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    total: Counter[int] = Counter()
    for upto in (1, 3):
        left = ids(spark, Segments(*segments[:3], open_to=upto), "left")
        right = ids(spark, Segments(*segments[3:], open_to=upto), "right")
        total += numbers(read_all(left.union(right), tmp_path))
    assert total == Counter(range(60))


def test_two_queries_can_read_one_frame(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    frame = ids(spark, Segments(*segments))
    one: Batches = {}
    two: Batches = {}
    with (
        running(frame, tmp_path / "one", one) as first,
        running(frame, tmp_path / "two", two) as second,
    ):
        first.processAllAvailable()
        second.processAllAvailable()
    assert numbers(one) == numbers(two) == Counter(range(60))


EVERY_TYPE = """
SELECT id AS `größe 数`,
  cast(id AS tinyint) tiny, cast(id AS smallint) small, cast(id AS int) int,
  cast(id AS float) / 3 AS float, cast(id AS double) / 3 AS double, id % 2 = 0 AS bool,
  CASE WHEN id % 3 > 0 THEN concat('ü', id) END AS text,
  cast(concat('b', id) AS binary) AS bytes,
  cast(id AS decimal(9, 2)) / 7 AS small_decimal,
  cast(id AS decimal(38, 18)) / 7 AS decimal,
  date_add(date'1969-12-30', cast(id AS int)) AS day,
  timestamp_micros(id * 1000001 - 5) AS time,
  timestamp_ntz'2024-03-31 02:30:00.000001' + make_dt_interval(cast(id AS int)) AS local_time,
  make_dt_interval(0, 0, 0, id) AS duration, make_ym_interval(0, cast(id AS int)) AS months,
  CASE WHEN id % 4 > 0 THEN array(id, NULL, id + 1) END AS list,
  map(concat('k', id), array(struct(id AS a, cast(NULL AS string) AS b))) AS dictionary,
  struct(id AS x, struct(array(concat('d', id)) AS z) AS y) AS nested
FROM range(20)
"""


def test_every_type_comes_through_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql(EVERY_TYPE)
    files = written(rows, tmp_path / "data")
    frame = parquet_stream(spark, rows.schema, Segments(files), "types")
    assert frame.schema == rows.schema
    (seen,) = read_all(frame, tmp_path / "log").values()
    assert seen == as_json(rows)


def test_columns_come_in_the_order_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(3).selectExpr("id a", "-id b", "'c' c")
    files = written(rows, tmp_path / "data")
    frame = parquet_stream(spark, rows.select("c", "a").schema, Segments(files), "columns")
    (seen,) = read_all(frame, tmp_path / "log").values()
    assert seen == [f'{{"c":"c","a":{number}}}' for number in range(3)]


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_any_name_of_a_file_can_be_read(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    (file,) = written(spark.range(5).coalesce(1), tmp_path / "data")
    odd = tmp_path / "a b%20%+ü数#?=[1]" / "part {x,y}*.parquet"
    odd.parent.mkdir()
    shutil.move(file.location, odd)
    seen = read_all(ids(spark, Segments([DataFile(f"{scheme}{odd}", file.size)])), tmp_path / "log")
    assert numbers(seen) == Counter(range(5))


def test_a_big_file_is_read_by_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    rows = (
        spark.range(200_000).coalesce(1).withColumn("text", sf.sha2(sf.col("id").cast("string"), 0))
    )
    rows.write.option("parquet.block.size", 1 << 20).parquet(str(tmp_path / "data"))
    (path,) = (tmp_path / "data").glob("*.parquet")
    session = spark.newSession()
    session.conf.set("spark.sql.files.maxPartitionBytes", "4MB")
    file = DataFile(str(path), path.stat().st_size)
    frame = parquet_stream(session, rows.schema, Segments([file]), "big")
    counted = frame.groupBy(sf.spark_partition_id().alias("task")).agg(
        sf.count("*").alias("rows"), sf.sum("id").alias("sum")
    )
    (seen,) = read_all(counted, tmp_path / "log").values()
    tasks = [json.loads(row) for row in seen]
    assert len(tasks) > 1
    assert sum(task["rows"] for task in tasks) == 200_000
    assert sum(task["sum"] for task in tasks) == sum(range(200_000))


def test_a_missing_file_fails_the_query_whatever_the_session_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    gone = DataFile(str(tmp_path / "gone.parquet"), 1000)
    with pytest.raises(StreamingQueryException, match=r"gone\.parquet"):
        read_all(ids(session, Segments([gone])), tmp_path / "log")


def test_a_damaged_file_fails_the_query_whatever_the_session_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    (file,) = written(spark.range(5).coalesce(1), tmp_path / "data")
    Path(file.location).write_bytes(Path(file.location).read_bytes()[:-1])
    (tmp_path / "data" / f".{Path(file.location).name}.crc").unlink()
    with pytest.raises(StreamingQueryException, match=r"\.parquet"):
        read_all(ids(session, Segments([file])), tmp_path / "log")


@pytest.mark.parametrize("size", [0, 1, 10**9], ids=["none", "short", "long"])
def test_a_wrong_size_loses_no_row(spark: SparkSession, tmp_path: Path, size: int) -> None:
    (file,) = written(spark.range(5).coalesce(1), tmp_path / "data")
    said = DataFile(file.location, size)
    seen = read_all(ids(spark, Segments([said])), tmp_path / "log")
    assert numbers(seen) == Counter(range(5))


@pytest.mark.parametrize("question", ["initial", "latest", "newest", "committed", "files"])
def test_an_exception_of_the_steering_fails_the_query_with_its_text(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path, question: str
) -> None:
    def fail(*asked: Any) -> Any:
        raise OSError("the log is unreadable")

    steering = Segments(*segments)
    setattr(steering, question, fail)
    with pytest.raises(StreamingQueryException, match="the log is unreadable"):
        read_all(ids(spark, steering), tmp_path)


def test_the_steering_hears_what_will_not_be_read_again(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    steering = Segments(*segments)
    read_all(ids(spark, steering), tmp_path)
    assert sorted(set(steering.commits)) in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6])


def test_a_query_whose_steering_waits_stops_once_that_answers(
    spark: SparkSession, segments: list[list[DataFile]], tmp_path: Path
) -> None:
    class Waiting(Segments):
        asked, opened = threading.Event(), threading.Event()

        def latest(self, start: str | None) -> str:
            self.asked.set()
            self.opened.wait()
            return super().latest(start)

    steering = Waiting(*segments)
    with running(ids(spark, steering), tmp_path, {}) as query:
        assert steering.asked.wait(60)
        steering.opened.set()
    assert not query.isActive
    assert query.exception() is None


def test_every_number_of_a_range_comes_once(spark: SparkSession, tmp_path: Path) -> None:
    seen = read_all(range_stream(spark, Numbers(), "numbers", 3), tmp_path)
    assert sorted(seen) == list(range(10))
    assert numbers(seen, "value") == Counter(range(100))


def test_a_range_is_made_by_as_many_tasks_as_asked(spark: SparkSession, tmp_path: Path) -> None:
    frame = range_stream(spark, Numbers(), "numbers", 4)
    tasks = frame.select(sf.spark_partition_id().alias("task"), "value")
    seen = read_all(tasks, tmp_path)
    assert {json.loads(row)["task"] for row in seen[0]} == {0, 1, 2, 3}


def test_a_row_of_a_range_always_has_the_same_time(spark: SparkSession, tmp_path: Path) -> None:
    frame = range_stream(spark, Numbers(), "numbers", 2)
    assert frame.dtypes == [("value", "bigint"), ("timestamp", "timestamp")]
    seen = read_all(frame, tmp_path)
    assert seen[1][0] == '{"value":10,"timestamp":"1970-01-01T00:00:00.010Z"}'
