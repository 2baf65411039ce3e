"""The files sink by itself: what it writes, who sees it when, and what a death leaves."""

from __future__ import annotations

import hashlib
import logging
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import StorageError, UsageError
from holdfast.sinks import Epoch, EpochSegment, Handle
from holdfast.sinks.files import manifest as manifest_module
from holdfast.sinks.files.sink import FilesSink, committed_epochs, committed_files, files
from holdfast.storage.moving import LocalFolder
from holdfast.testing.interruption import kill_at, kill_at_every_step
from tests.spark.dying_sinks import pre_committing, recover, recovering
from tests.spark.taps import until

JOB = "0123456789abcdef" * 2


def segments_of(home: Path, frames: list[Any], first: int = 0) -> list[EpochSegment]:
    """Batches as a region leaves them: one folder each."""
    found = []
    for batch, frame in enumerate(frames, first):
        folder = home / f"{batch}-abc"
        frame.write.parquet(str(folder))
        found.append(segment_at(batch, folder))
    return found


def segment_at(batch: int, folder: Path) -> EpochSegment:
    parts = sorted(folder.glob("*.parquet"))
    size = sum(part.stat().st_size for part in parts)
    return EpochSegment(batch, tuple(map(str, parts)), size)


def epoch_of(spark: Any, home: Path, checkpoint: int, *frames: Any, sink: str = "out") -> Epoch:
    segments = segments_of(home / f"{sink}-{checkpoint}", list(frames))
    schema = frames[0].schema if frames else None
    return Epoch(JOB, 1, sink, checkpoint, segments, spark, schema)


def numbers_epoch(home: Path, checkpoint: int, *batches: range, sink: str = "out") -> Epoch:
    """Without Spark; it can be pickled."""
    segments = []
    for batch, numbers in enumerate(batches):
        folder = home / f"{sink}-{checkpoint}" / f"{batch}-abc"
        folder.mkdir(parents=True)
        for part in (0, 1):
            table = pa.table({"n": list(numbers)[part::2]})
            pq.write_table(table, folder / f"part-{part}.parquet")
        segments.append(segment_at(batch, folder))
    nobody: Any = None
    return Epoch(JOB, 1, sink, checkpoint, segments, nobody, nobody)


def commit(sink: FilesSink, epoch: Epoch) -> Handle:
    handle = sink.pre_commit(epoch)
    sink.commit(replace(epoch, segments=()), handle)
    return handle


def visible(folder: Path) -> list[int]:
    """What a reader that lists the directory sees; every file must be whole."""
    found = [pq.read_table(f)["n"].to_pylist() for f in sorted(folder.glob("*.parquet"))]
    return sorted(n for numbers in found for n in numbers)


def promised(folder: Path) -> list[int]:
    """What a reader of the manifest sees."""
    found = [pq.read_table(f)["n"].to_pylist() for f in committed_files(folder)]
    return sorted(n for numbers in found for n in numbers)


def nothing_is_staged(folder: Path) -> bool:
    staged = [f for f in (folder / "_holdfast").rglob("*") if f.is_file()]
    return all(f.is_relative_to(folder / "_holdfast/manifest") for f in staged)


# Formats


@dataclass(frozen=True)
class Sample:
    format: str
    columns: str
    reading: dict[str, Any]
    options: dict[str, Any]


FLAT = """
    id, IF(id = 0, NULL, b) AS b, IF(id = 0, NULL, CAST(id AS TINYINT)) AS i8,
    IF(id = 0, NULL, 9223372036854775807 - id) AS i64,
    IF(id = 0, NULL, try_element_at(array(float('NaN'), float('-Infinity'), 0.1f), id)) AS f32,
    IF(id = 0, NULL, 1 / id) AS f64,
    IF(id = 0, NULL, CAST('-12345678901234567890.123456789012345678' AS DECIMAL(38, 18))) AS exact,
    element_at(array(NULL, '', '  a\\t', 'say "hi"\\\\', 'a,b;c', 'one\\ntwo\\r\\n3', '\\\\\\\\N',
        'Zürich 😀 \\u2028 \\u0000 #'), id + 1) AS text,
    IF(id = 0, NULL, DATE'1500-02-28') AS day,
    IF(id = 0, NULL, TIMESTAMP'1850-06-01 12:00:00.123456Z') AS old,
    IF(id = 0, NULL, TIMESTAMP'2024-10-27 00:30:00.000001Z') AS instant,
    IF(id = 0, NULL, TIMESTAMP_NTZ'2024-10-27 02:30:00.999999') AS local,
    IF(id = 0, NULL, INTERVAL '3 04:05:06.700001' DAY TO SECOND) AS span,
    IF(id = 0, NULL, INTERVAL '1-2' YEAR TO MONTH) AS months
"""
NESTED = """,
    IF(id = 0, NULL, CAST('x\\u0000y' AS BINARY)) AS raw,
    IF(id = 0, NULL, array(TIMESTAMP'1850-06-01 12:00:00.123456Z', NULL)) AS times,
    IF(id = 0, NULL, map('kéy', array(CAST(1.50 AS DECIMAL(9, 2))), '', NULL)) AS lookup,
    IF(id = 0, NULL, named_struct('a', named_struct('raw', X'00FF'), 'n', int(NULL))) AS inner,
    IF(id = 0, NULL, parse_json('{"a": [1, null, "ü"]}')) AS free
"""
IN_ROWS = " FROM (SELECT CAST(id AS INT) AS id, id % 2 = 1 AS b FROM range(8))"

SAMPLES = [
    Sample("parquet", FLAT + NESTED, {}, {}),
    Sample("parquet", FLAT + NESTED, {}, {"compression": "zstd"}),
    Sample("json", FLAT + NESTED, {}, {}),
    Sample("json", FLAT + NESTED, {}, {"compression": "gzip"}),
    Sample("csv", FLAT, {"multiLine": True, "nullValue": "\u0001"}, {}),
    Sample(
        "csv", FLAT, {"multiLine": True, "header": True, "sep": ";"}, {"header": True, "sep": ";"}
    ),
]


def in_zone(spark: Any, zone: str) -> Any:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    return session


def by_value(frame: Any) -> dict[int, str]:
    """Each row as text that shows every bit of it, whatever the session's zone."""
    shown = {"old": "unix_micros(old)", "instant": "unix_micros(instant)"}
    shown |= {"months": "CAST(months AS STRING)", "free": "to_json(free)", "raw": "hex(raw)"}
    shown |= {"times": "transform(times, t -> unix_micros(t))"}
    columns = [f"{shown.get(name, name)} AS {name}" for name in frame.columns]
    return {row["id"]: repr(row) for row in frame.selectExpr(*columns).collect()}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s.format}-{len(s.options)}")
def test_every_value_comes_back_as_it_was(spark: Any, tmp_path: Path, sample: Sample) -> None:
    writing = in_zone(spark, "America/St_Johns")
    rows = writing.sql(f"SELECT {sample.columns} {IN_ROWS}")
    sink = files(tmp_path / "out", sample.format, **sample.options)
    sink.check(writing, rows.schema)
    commit(
        sink, epoch_of(writing, tmp_path / "work", 1, rows.where("id < 3"), rows.where("id > 2"))
    )
    reader = in_zone(spark, "Asia/Tokyo").read.schema(rows.schema).format(sample.format)
    found = reader.options(**sample.reading).load(committed_files(tmp_path / "out"))
    expected = by_value(rows)
    if sample.reading.get("header"):  # read as Spark reads by default: the empty string is null
        expected[1] = expected[1].replace("text=''", "text=None")
    assert by_value(found) == expected
    assert by_value(reader.options(**sample.reading).load(str(tmp_path / "out"))) == expected


def test_binary_in_json_is_base64_and_a_file_is_lines(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql("SELECT X'00FF' AS raw, 'a\\nb' AS text").union(spark.sql("SELECT X'01', 'c'"))
    commit(files(tmp_path / "out", "json"), epoch_of(spark, tmp_path / "work", 1, rows.coalesce(1)))
    (name,) = committed_files(tmp_path / "out")
    lines = Path(name).read_text().splitlines()
    assert lines == ['{"raw":"AP8=","text":"a\\nb"}', '{"raw":"AQ==","text":"c"}']


@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        ({"format": "json", "compression": "gzip"}, ".json.gz"),
        ({"format": "csv", "compression": "bzip2"}, ".csv.bz2"),
        ({"compression": "zstd"}, ".zstd.parquet"),
        ({}, ".parquet"),
    ],
)
def test_names_tell_readers_how_files_are_compressed(
    spark: Any, tmp_path: Path, options: dict[str, Any], suffix: str
) -> None:
    rows = spark.range(10).selectExpr("id AS n", "id AS m")
    commit(files(tmp_path / "out", **options), epoch_of(spark, tmp_path / "work", 7, rows))
    names = [Path(f).name for f in committed_files(tmp_path / "out")]
    assert names[0] == f"out-0123456789ab-1-00000007-00000{suffix}"
    assert {name[-len(suffix) :] for name in names} == {suffix}


REFUSED = [
    (files("out", "csv"), "a int, b array<int>", "b: csv has no array"),
    (files("out", "csv"), "a int, b struct<c: int>", "b: csv has no struct"),
    (files("out", "csv"), "a int, b map<string, int>", "b: csv has no map"),
    (files("out", "csv"), "a int, b variant", "b: csv has no variant"),
    (files("out", "csv"), "a int, b binary", "b: csv has no binary.*base64"),
    (files("out", "csv"), "a string", "a: a null in the only column needs nullValue"),
    (files("out", "csv", partition_by="b"), "a string, b int", "only column"),
    (files("out", "json"), "a array<struct<b: map<date, int>>>", "no keys of type date"),
    (files("out", "json"), "a int, b void", "b: json has no void"),
    (files("out"), "a int, b array<void>", "b: parquet has no void"),
    (files("out", partition_by="dya"), "a int, day date", "Did you mean 'day'"),
    (files("out", partition_by=["a"]), "a int", "none is left to write"),
    (files("out", partition_by="b"), "a int, b array<int>", "named after array"),
]


def test_columns_that_cannot_be_written_and_read_again_are_refused(spark: Any) -> None:
    for sink, schema, said in REFUSED:
        with pytest.raises(UsageError, match=said):
            sink.check(spark, schema_of(spark, schema))


def test_everything_wrong_is_said_at_once(spark: Any) -> None:
    sink = files("out", "csv", partition_by="x")
    with pytest.raises(UsageError) as caught:
        sink.check(spark, schema_of(spark, "a array<int>, b binary, c int"))
    assert [word in str(caught.value) for word in ("x:", "a:", "b:", "c:")] == [True] * 3 + [False]


def test_what_can_be_written_is_not_refused(spark: Any) -> None:
    for sink, schema in [
        (files("out"), "a binary, b map<date, struct<c: variant>>, d interval day to second"),
        (files("out", "json"), "a binary, b map<string, array<timestamp>>, c variant"),
        (files("out", "csv"), "a string, b timestamp, c decimal(38, 18), d interval year"),
        (files("out", "csv", nullValue=r"\N"), "a string"),
        (files("out", partition_by=["b"]), "a array<int>, b timestamp"),
    ]:
        sink.check(spark, schema_of(spark, schema))


def schema_of(spark: Any, text: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(text)


# Partitions and sizes

ODD = [None, "plain", "a/b", "..", "x=y", "50%", "Zürich 😀", "quote ' \" `", "{[*?]}:#", " blank "]


def test_partitions_with_odd_values_come_back(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame(
        [(n, ODD[n % len(ODD)], n % 2) for n in range(40)], "n int, k string, `a.b` int"
    )
    sink = files(tmp_path / "out", partition_by=["k", "a.b"])
    sink.check(spark, rows.schema)
    for checkpoint in (1, 2):
        commit(
            sink,
            epoch_of(spark, tmp_path / "work", checkpoint, rows.where(f"n % 2 + 1 = {checkpoint}")),
        )
    assert (tmp_path / "out/k=__HIVE_DEFAULT_PARTITION__").is_dir()
    assert (tmp_path / "out/k=a%2Fb").is_dir()
    expected = Counter((row["n"], row["k"], row["a.b"]) for row in rows.collect())
    for paths in (committed_files(tmp_path / "out"), [str(tmp_path / "out")]):
        reader = spark.read.schema(rows.schema).option("basePath", str(tmp_path / "out"))
        found = reader.parquet(*paths).collect()
        assert Counter((row["n"], row["k"], row["a.b"]) for row in found) == expected
    assert nothing_is_staged(tmp_path / "out")


def noise_epoch(spark: Any, home: Path, checkpoint: int, rows: int, parts: int) -> Epoch:
    """Rows of about 50 bytes that do not compress, in so many batches."""
    segments = []
    for batch in range(parts):
        numbers = range(batch * rows // parts, (batch + 1) * rows // parts)
        text = [hashlib.sha1(str(n).encode()).hexdigest() for n in numbers]
        folder = home / str(checkpoint) / f"{batch}-abc"
        folder.mkdir(parents=True)
        table = pa.table({"n": list(numbers), "k": [n % 5 for n in numbers], "text": text})
        pq.write_table(table, folder / "part-0.parquet")
        segments.append(segment_at(batch, folder))
    return Epoch(JOB, 1, "out", checkpoint, segments, spark, schema_of(spark, NOISE))


NOISE = "n long, k long, text string"
ROLL = 100_000


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
@pytest.mark.parametrize("batches", [24, 1])
def test_files_are_about_as_large_as_asked(
    spark: Any, tmp_path: Path, format: str, batches: int
) -> None:
    sink = files(tmp_path / "out", format, roll_size=ROLL)
    for checkpoint in (1, 2):
        commit(sink, noise_epoch(spark, tmp_path / "work", checkpoint, 12_000, batches))
    _, second = committed_epochs(tmp_path / "out")
    assert second.rows == 12_000
    assert len(second.files) == pytest.approx(second.size / ROLL, abs=1)
    assert all(ROLL / 2 < size < ROLL * 2 for _, size in second.files)
    read = spark.read.schema(NOISE).format(format).load(committed_files(tmp_path / "out"))
    assert read.count() == 24_000


def test_a_small_epoch_becomes_one_file_and_one_per_partition(spark: Any, tmp_path: Path) -> None:
    epoch = noise_epoch(spark, tmp_path / "work", 1, 400, 6)
    commit(files(tmp_path / "one", roll_size="1mb"), epoch)
    assert len(committed_files(tmp_path / "one")) == 1
    commit(files(tmp_path / "five", partition_by="k", roll_size="1mb"), epoch)
    assert len(committed_files(tmp_path / "five")) == 5


def test_a_large_partition_is_split(spark: Any, tmp_path: Path) -> None:
    sink = files(tmp_path / "out", partition_by="k", roll_size=ROLL)
    for checkpoint in (1, 2):
        commit(sink, noise_epoch(spark, tmp_path / "work", checkpoint, 20_000, 1))
    second = committed_epochs(tmp_path / "out")[1]
    assert max(size for _, size in second.files) < ROLL * 1.5
    assert len(second.files) >= 10
    assert {name.partition("/")[0] for name, _ in second.files} == {f"k={k}" for k in range(5)}


def test_hadoops_file_systems_get_the_same_without_links(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.storage.hadoop_folder import HadoopFolder

    module = sys.modules[FilesSink.__module__]  # the name leads to the function
    monkeypatch.setattr(module, "open_folder", lambda path: HadoopFolder(f"file://{path}"))
    sink, out = files(tmp_path / "out", partition_by="k"), tmp_path / "out"
    rows = spark.createDataFrame([(n, ODD[n % len(ODD)]) for n in range(20)], "n int, k string")
    for checkpoint in (1, 2):
        epoch = epoch_of(
            spark, tmp_path / "work", checkpoint, rows.where(f"n % 2 + 1 = {checkpoint}")
        )
        handle = sink.pre_commit(epoch)
        assert list(sink.pending(JOB, "out")) == [handle]
        sink.commit(epoch, handle)
        sink.recover_and_commit(epoch, handle)
    found = (
        spark.read.schema(rows.schema).option("basePath", str(out)).parquet(*committed_files(out))
    )
    assert Counter(found.collect()) == Counter(rows.collect())
    assert nothing_is_staged(out)
    assert len(committed_files(out)) == sum(len(e.files) for e in committed_epochs(out))


# What readers see


def test_nothing_is_visible_before_the_commit_and_everything_after(tmp_path: Path) -> None:
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    epoch = numbers_epoch(tmp_path / "work", 4, range(5), range(5, 9))
    handle = sink.pre_commit(epoch)
    assert visible(out) == promised(out) == []
    shutil.rmtree(tmp_path / "work")
    sink.commit(epoch, handle)
    assert visible(out) == promised(out) == list(range(9))
    assert nothing_is_staged(out)
    (entry,) = committed_epochs(out)
    assert (entry.job_id, entry.sink, entry.checkpoint, entry.rows) == (JOB, "out", 4, 9)
    assert [size for _, size in entry.files] == [
        Path(f).stat().st_size for f in committed_files(out)
    ]


def test_segments_on_the_same_disk_are_linked_not_copied(tmp_path: Path) -> None:
    epoch = numbers_epoch(tmp_path / "work", 1, range(5))
    commit(files(tmp_path / "out"), epoch)
    inodes = {Path(file).stat().st_ino for file in epoch.files}
    assert {Path(file).stat().st_ino for file in committed_files(tmp_path / "out")} == inodes


def test_committing_again_does_nothing_not_even_after_readers_took_the_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    epoch = numbers_epoch(tmp_path / "work", 1, range(5))
    handle = commit(sink, epoch)
    sink.commit(epoch, handle)
    sink.recover_and_commit(epoch, handle)
    assert visible(out) == list(range(5))
    for file in committed_files(out):
        Path(file).unlink()
    sink.recover_and_commit(epoch, handle)
    assert visible(out) == promised(out) == []
    assert len(committed_epochs(out)) == 1
    assert caplog.records == []


def test_a_commit_that_died_before_it_removed_the_plan_has_nothing_left_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    epoch = numbers_epoch(tmp_path / "work", 1, range(5))
    handle = sink.pre_commit(epoch)
    plan = out / handle["staging"] / "plan.json"
    text = plan.read_bytes()
    sink.commit(epoch, handle)
    plan.parent.mkdir(parents=True)
    plan.write_bytes(text)
    for file in committed_files(out):
        Path(file).unlink()
    sink.recover_and_commit(epoch, handle)
    assert caplog.records == []
    assert nothing_is_staged(out)


def test_staged_files_that_somebody_removed_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = files(tmp_path / "out")
    epoch = numbers_epoch(tmp_path / "work", 1, range(5))
    handle = sink.pre_commit(epoch)
    shutil.rmtree(tmp_path / "out")
    with caplog.at_level(logging.WARNING):
        sink.recover_and_commit(epoch, handle)
    assert "2 staged files of checkpoint 1 are gone" in caplog.text


def test_epochs_without_rows_leave_nothing(spark: Any, tmp_path: Path) -> None:
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    none = spark.range(0).selectExpr("id AS n")
    for epoch in (
        epoch_of(spark, tmp_path / "a", 1),
        epoch_of(spark, tmp_path / "b", 2, none, none),
        numbers_epoch(tmp_path / "c", 3, range(0)),
    ):
        handle = commit(sink, epoch)
        assert handle["files"] == 0
        sink.recover_and_commit(epoch, handle)
    assert [f for f in out.rglob("*") if f.is_file()] == []
    assert committed_files(out) == []
    assert committed_epochs(out) == []
    commit(sink, numbers_epoch(tmp_path / "d", 4, range(0), range(1)))
    assert len(committed_files(out)) == 1  # files without rows are left out


def test_pending_transactions_are_listed_described_and_aborted(tmp_path: Path) -> None:
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    handle = sink.pre_commit(numbers_epoch(tmp_path / "work", 3, range(5)))
    assert list(sink.pending(JOB, "out")) == [handle]
    assert sink.pending(JOB, "other") == sink.pending("f" * 32, "out") == []
    assert sink.describe(handle) == [f"2 files in {out}/_holdfast/{JOB}/out/3"]
    for _ in range(2):
        sink.abort(handle)
        assert sink.pending(JOB, "out") == []
        assert nothing_is_staged(out)
    assert visible(out) == promised(out) == []


def test_pre_commit_removes_what_an_earlier_one_left_but_of_no_other_sink(tmp_path: Path) -> None:
    sink = files(tmp_path / "out")
    sink.pre_commit(numbers_epoch(tmp_path / "a", 1, range(5)))
    other = sink.pre_commit(numbers_epoch(tmp_path / "b", 1, range(3), sink="other"))
    handle = sink.pre_commit(numbers_epoch(tmp_path / "c", 2, range(5)))
    assert list(sink.pending(JOB, "out")) == [handle]
    assert list(sink.pending(JOB, "other")) == [other]


def test_sinks_and_jobs_share_a_directory(tmp_path: Path) -> None:
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    mine = numbers_epoch(tmp_path / "a", 1, range(5))
    sibling = numbers_epoch(tmp_path / "b", 1, range(10, 13), sink="sibling")
    stranger = replace(numbers_epoch(tmp_path / "c", 1, range(20, 22)), job_id="f" * 32)
    restored = replace(numbers_epoch(tmp_path / "d", 2, range(30, 31)), attempt=2)
    for epoch in (mine, sibling, stranger, restored):
        commit(sink, epoch)
    expected = [*range(5), *range(10, 13), *range(20, 22), 30]
    assert visible(out) == promised(out) == expected
    assert [(e.sink, e.checkpoint) for e in committed_epochs(out)] == [
        *[("out", 1), ("sibling", 1), ("out", 1), ("out", 2)]
    ]


def test_readers_never_see_a_part_of_an_epoch_nor_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_module, "_GATHERED", 4)
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    epochs = [numbers_epoch(tmp_path / "work", n, *[range(n, n + 1)] * 6) for n in range(1, 41)]
    seen: list[int] = []
    problems: list[str] = []
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            try:
                counts = Counter(promised(out))
                seen.append(len(counts))
                problems.extend(f"epoch {n} in part: {c}" for n, c in counts.items() if c != 6)
                if sorted(counts) != list(range(1, len(counts) + 1)):
                    problems.append(f"an epoch is missing: {sorted(counts)}")
                visible(out)
            except Exception as error:
                problems.append(repr(error))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for epoch in epochs:
            commit(sink, epoch)
            before = len(seen)
            until(lambda before=before: len(seen) > before or problems)  # type: ignore[misc]
    finally:
        over.set()
        reader.join()
    assert problems == []
    assert seen == sorted(seen)
    assert len(set(seen)) > 5


# Deaths


def test_a_death_anywhere_in_pre_commit_and_in_the_recovery_leaves_nothing(tmp_path: Path) -> None:
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    epoch = numbers_epoch(tmp_path / "work", 1, range(5), range(5, 9))
    deaths = 0
    for step in kill_at_every_step(partial(pre_committing, sink, epoch), stride=2):
        deaths += 1
        assert visible(out) == promised(out) == []
        if step % 3 == 0:
            kill_at(partial(recovering, sink, epoch, None), step % 7 + 1)
        recover(sink, epoch, None)
        assert nothing_is_staged(out)
        assert sink.pending(JOB, "out") == []
    assert deaths > 10
    commit(sink, replace(epoch, checkpoint=2))
    assert visible(out) == promised(out) == list(range(9))


def test_a_death_anywhere_in_commit_and_in_the_recovery_shows_every_row_once(
    tmp_path: Path,
) -> None:
    sink = files(tmp_path / "out")
    commit(sink, numbers_epoch(tmp_path / "work", 1, range(5)))
    epoch = numbers_epoch(tmp_path / "work", 2, range(5, 8), range(8, 20))
    handle = sink.pre_commit(epoch)
    died_whole(sink, epoch, handle, tmp_path, visible)


def died_whole(
    sink: FilesSink,
    epoch: Epoch,
    handle: Handle,
    home: Path,
    rows_in: Callable[[Path], list[int]],
    stride: int = 1,
) -> None:
    """Kill the commit at every step of it, then the recovery; judge by both kinds of readers."""
    prepared, out = home / "prepared", home / "out"
    out.rename(prepared)
    deaths, whole = 0, set()
    work = partial(recovering, sink, epoch, handle)
    for step in range(1, 1000, stride):
        shutil.copytree(prepared, out)
        died = kill_at(work, step)
        deaths += died
        found = [r for f in committed_files(out) for r in pq.read_table(f)["n"].to_pylist()]
        assert sorted(found) in (list(range(5)), list(range(20))), step
        whole.add(len(found))
        if step % 3 == 0:
            kill_at(work, step % 11 + 1)
        recover(sink, epoch, handle)
        assert rows_in(out) == list(range(20)), step
        assert nothing_is_staged(out)
        assert len(committed_epochs(out)) == 2
        shutil.rmtree(out)
        if not died:
            break
    assert whole == {5, 20}
    assert deaths > 10


def test_a_death_anywhere_in_a_commit_into_partitions_shows_every_row_once(
    spark: Any, tmp_path: Path
) -> None:
    sink = files(tmp_path / "out", partition_by="k")
    rows = spark.range(20).selectExpr("id AS n", "IF(id % 3 = 0, NULL, id % 3) AS k")
    commit(sink, epoch_of(spark, tmp_path / "work", 1, rows.where("n < 5").coalesce(1)))
    epoch = epoch_of(spark, tmp_path / "work", 2, rows.where("n >= 5").coalesce(1))
    handle = sink.pre_commit(epoch)

    def in_partitions(out: Path) -> list[int]:
        found = [pq.read_table(f, partitioning=None)["n"].to_pylist() for f in out.glob("k=*/*")]
        return sorted(n for numbers in found for n in numbers)

    without_spark: Any = replace(epoch, spark=None, schema=None, segments=())
    died_whole(sink, without_spark, handle, tmp_path, in_partitions, stride=3)


class CutOff(LocalFolder):
    """Fails before its n-th change, and at all that come later: as if the process had died."""

    left = 0

    def _change(self) -> None:
        if CutOff.left == 0:
            raise StorageError("cut off")
        CutOff.left -= 1

    def make_directory(self, path: str) -> None:
        self._change()
        super().make_directory(path)

    def remove(self, path: str) -> None:
        self._change()
        super().remove(path)

    def sync(self, path: str) -> None:
        self._change()
        super().sync(path)

    def files_below(self, path: str) -> list[tuple[str, int]]:
        self._change()
        return super().files_below(path)


def test_a_pre_commit_that_executors_write_can_end_anywhere(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, out = files(tmp_path / "out", compression="gzip"), tmp_path / "out"
    epoch = epoch_of(spark, tmp_path / "work", 1, spark.range(9).selectExpr("id AS n").coalesce(1))
    for left in range(100):
        with monkeypatch.context() as patched:
            CutOff.left = left
            module = sys.modules[FilesSink.__module__]  # the name leads to the function
            patched.setattr(module, "open_folder", lambda path: CutOff(Path(path)))
            try:
                sink.pre_commit(epoch)
                break
            except StorageError:
                pass
        assert visible(out) == promised(out) == []
        recover(sink, epoch, None)
        assert nothing_is_staged(out)
    assert left > 3
    (pending,) = sink.pending(JOB, "out")
    sink.recover_and_commit(epoch, pending)
    assert visible(out) == promised(out) == list(range(9))


def test_a_file_that_a_reader_took_before_the_commit_died_is_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink, out = files(tmp_path / "out"), tmp_path / "out"
    epoch = numbers_epoch(tmp_path / "work", 1, range(4))
    handle = sink.pre_commit(epoch)
    staged = sorted((out / handle["staging"] / "rows").iterdir())
    taken = out / f"out-{JOB[:12]}-1-00000001-00000.parquet"
    staged[0].rename(taken)  # as the commit does, which dies then
    taken.unlink()
    with caplog.at_level(logging.WARNING):
        sink.recover_and_commit(epoch, handle)
    assert visible(out) == promised(out) == [1, 3]
    assert "has appeared before and is gone" in caplog.text
    assert nothing_is_staged(out)
