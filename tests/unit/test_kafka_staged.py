"""Staged files of the Kafka sink: what their footers prove, and reading them back in order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.sinks.interface import EpochSegment
from holdfast.sinks.kafka.fitting import Extremes
from holdfast.sinks.kafka.footers import extremes_of
from holdfast.sinks.kafka.staged import is_on_disk, rows_of

LIMIT = 10_000


def segment(folder: Path, *tables: dict[str, Any], **options: Any) -> EpochSegment:
    """A file for each table."""
    files = []
    for number, columns in enumerate(tables):
        files.append(folder / f"{len(list(folder.iterdir()))}-{number}.parquet")
        pq.write_table(pa.table(columns), files[-1], **options)
    sizes = tuple(file.stat().st_size for file in files)
    return EpochSegment(0, tuple(map(str, files)), sum(sizes), sizes)


def found(*segments: EpochSegment, columns: tuple[str, ...] = ("key", "value")) -> Extremes | None:
    return extremes_of(segments, columns, "t", LIMIT)


def surely(*segments: EpochSegment, columns: tuple[str, ...] = ("key", "value")) -> Extremes:
    bounds = found(*segments, columns=columns)
    assert bounds is not None
    return bounds


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"compression": "none", "use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"value": "DELTA_BYTE_ARRAY"}},
        {"use_dictionary": False, "column_encoding": {"value": "DELTA_LENGTH_BYTE_ARRAY"}},
    ],
)
def test_no_row_is_larger_than_the_bound_however_it_is_written(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    texts = ["x" * length for length in range(40, 2001, 40)]
    rows = segment(tmp_path, {"key": texts, "value": ["y" * 3000] * 50}, **options)
    bounds = extremes_of([rows], ("key", "value"), "t", 1 << 20)
    assert bounds is not None
    assert bounds.most_bytes >= 5000


def test_the_bound_of_small_files_is_small(tmp_path: Path) -> None:
    small = [{"key": ["a", "b"], "value": ["1", "2"]} for _ in range(20)]
    assert surely(segment(tmp_path, *small)).most_bytes < 1000


def test_a_row_that_only_its_value_makes_large_is_seen_in_any_file(tmp_path: Path) -> None:
    few = segment(tmp_path, {"key": ["a"], "value": ["1"]}, {"key": ["a"], "value": ["z" * 8000]})
    assert surely(few).most_bytes >= 8001


def test_partitions_are_those_of_all_files(tmp_path: Path) -> None:
    tables = [{"value": ["v"] * 2, "partition": pa.array(p, pa.int32())} for p in ([3, 1], [7, 5])]
    bounds = surely(segment(tmp_path, *tables), columns=("value", "partition"))
    assert (bounds.lowest_partition, bounds.highest_partition) == (1, 7)


def test_rows_without_partitions_name_none(tmp_path: Path) -> None:
    tables = {"value": ["v"] * 2, "partition": pa.array([None, None], pa.int32())}
    bounds = surely(segment(tmp_path, tables), columns=("value", "partition"))
    assert (bounds.lowest_partition, bounds.highest_partition) == (None, None)


def test_partitions_that_are_not_told_must_be_looked_at(tmp_path: Path) -> None:
    tables = {"value": ["v"], "partition": pa.array([1], pa.int32())}
    untold = segment(tmp_path, tables, write_statistics=False)
    assert found(untold, columns=("value", "partition")) is None


def test_a_key_that_may_be_null_counts_as_lacking(tmp_path: Path) -> None:
    whole = {"key": ["a", "b"], "value": ["1", "2"]}
    assert not surely(segment(tmp_path, whole)).lacks_key
    assert surely(segment(tmp_path, whole, {"key": ["a", None], "value": ["1", "2"]})).lacks_key
    assert surely(segment(tmp_path, whole, write_statistics=False)).lacks_key
    assert surely(segment(tmp_path, {"value": ["1"]}), columns=("value",)).lacks_key


def test_rows_with_other_columns_must_be_looked_at(tmp_path: Path) -> None:
    rows = segment(tmp_path, {"key": ["a"], "value": ["1"]})
    for other in ("headers", "timestamp", "topic"):
        assert found(rows, columns=("key", "value", other)) is None


def test_large_or_many_files_are_not_read(tmp_path: Path) -> None:
    rows = segment(tmp_path, {"key": ["a"], "value": ["1"]})
    absent = str(tmp_path / "absent")
    assert found(EpochSegment(0, (absent,), LIMIT, (LIMIT,))) is None
    assert found(EpochSegment(0, (absent,) * 100, 100, (1,) * 100)) is None
    assert found(rows) is not None


def test_files_without_rows_fit(tmp_path: Path) -> None:
    empty = {"key": pa.array([], pa.string()), "value": pa.array([], pa.string())}
    assert surely(segment(tmp_path, empty)).most_bytes < 100


# Reading


def test_rows_are_read_in_the_order_of_files_and_rows(tmp_path: Path) -> None:
    numbers = [str(n) for n in range(25_000)]
    first = {"key": ["a"] * 25_000, "value": numbers, "other": [0] * 25_000}
    second = {"key": ["b"] * 2, "value": ["x", None], "other": [0, 0]}
    rows = segment(tmp_path, first, second, row_group_size=7_000)
    batches = list(rows_of(rows.files, ("key", "value")))
    read = [value for batch in batches for value in batch.column("value").to_pylist()]
    assert read == [*numbers, "x", None]
    assert {tuple(batch.schema.names) for batch in batches} == {("key", "value")}


def test_old_timestamps_of_spark_are_read_to_the_microsecond(tmp_path: Path) -> None:
    moment = datetime(2500, 1, 1, 12, 0, 0, 123_456, UTC)
    column = pa.array([moment, None], pa.timestamp("us", "UTC"))
    rows = segment(
        tmp_path, {"value": ["1", "2"], "timestamp": column}, use_deprecated_int96_timestamps=True
    )
    (batch,) = rows_of(rows.files, ("value", "timestamp"))
    micros = batch.column("timestamp").cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    assert micros == [round(moment.timestamp() * 1_000_000), None]


def test_only_files_that_any_program_could_open_are_on_disk() -> None:
    assert is_on_disk(["/a/b.parquet", "file:///a/b.parquet"])
    assert not is_on_disk(["/a/b.parquet", "hdfs://h:1/a.parquet"])
    assert not is_on_disk(["s3a://bucket/a.parquet"])
