"""Rows of epochs into SQLite: once, whole, and as they were."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import holdfast as hf
from holdfast.errors import StorageError, UsageError
from holdfast.sinks import Epoch, EpochSegment
from holdfast.sinks.dbapi.sink import write_ahead
from holdfast.sinks.sqlite.sink import Connecting, SqliteSink, refuse_remote, sqlite
from holdfast.sinks.tables import table
from holdfast.sinks.write_ahead import Marker, WriteAhead
from tests.spark.taps import until

JOB = "0123456789abcdef" * 2


@dataclass(frozen=True)
class Home:
    """A database and the folder in which epochs are staged."""

    spark: Any
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "rows.db"

    def asked(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query).fetchall()

    def epoch(self, checkpoint: int, *batches: Any, schema: Any = None) -> Epoch:
        segments = [self._segment(checkpoint * 100 + at, b) for at, b in enumerate(batches)]
        found = schema or batches[0].schema
        return Epoch(JOB, 1, "out", checkpoint, segments, self.spark, found)

    def _segment(self, batch: int, rows: Any) -> EpochSegment:
        folder = self.folder / "segments" / f"{batch}-abc"
        if not folder.exists():
            rows.write.parquet(str(folder))
        files = sorted(str(file) for file in folder.glob("*.parquet"))
        return EpochSegment(batch, tuple(files), 1)

    def pairs(self, *rows: tuple[int | None, str | None]) -> Any:
        return self.spark.createDataFrame(list(rows), "k int, v string").coalesce(1)


@pytest.fixture
def home(spark: Any, tmp_path: Path) -> Home:
    return Home(spark, tmp_path)


def check(sink: Any, spark: Any, schema: Any) -> WriteAhead:
    """The sink as the runtime drives it, after its checks."""
    adapted = WriteAhead(sink)
    adapted.check(spark, schema)
    return adapted


def checked(sink: Any, epoch: Epoch) -> WriteAhead:
    return check(sink, epoch.spark, epoch.schema)


def committed(sink: Any, *epochs: Epoch) -> None:
    adapted = checked(sink, epochs[0])
    for epoch in epochs:
        adapted.commit(epoch, adapted.pre_commit(epoch))


# Once


def test_rows_appear_with_the_commit_and_committing_again_changes_nothing(home: Home) -> None:
    epoch = home.epoch(1, home.pairs((1, "a"), (2, None)), home.pairs((1, "a")))
    sink = checked(sqlite(home.path, "t"), epoch)
    handle = sink.pre_commit(epoch)
    assert home.asked("SELECT * FROM t") == []
    sink.commit(epoch, handle)
    sink.commit(epoch, handle)
    sink.recover_and_commit(epoch, handle)
    assert home.asked("SELECT * FROM t ORDER BY k, v") == [(1, "a"), (1, "a"), (2, None)]
    assert home.asked('SELECT "checkpoint", "written" FROM holdfast_commits') == [(1, 3)]
    assert sink.describe(handle) == [f"table t in {home.path}"]


def test_the_newest_row_of_a_key_stays(home: Home) -> None:
    first = home.epoch(1, home.pairs((1, "a"), (2, "b"), (1, "c")), home.pairs((2, "d"), (3, None)))
    second = home.epoch(2, home.pairs((3, "e"), (4, "f")))
    committed(sqlite(home.path, "t", key="k"), first, second)
    found = home.asked("SELECT * FROM t ORDER BY k")
    assert found == [(1, "c"), (2, "d"), (3, "e"), (4, "f")]


def test_rows_without_a_key_are_refused_and_nothing_of_the_epoch_is_written(home: Home) -> None:
    epoch = home.epoch(1, home.pairs((1, "a"), (None, "b")))
    with pytest.raises((PySparkException, UsageError), match="rows have no value in key"):
        committed(sqlite(home.path, "t", key="k"), epoch)
    assert home.asked("SELECT * FROM t") == []


@pytest.mark.parametrize("key", [None, "k"])
def test_an_epoch_without_rows_is_committed(home: Home, key: str | None) -> None:
    none = home.pairs().where("k = 1")
    sink = sqlite(home.path, "t", key=key)
    committed(sink, home.epoch(1, none), home.epoch(2, schema=none.schema))
    committed(sink, home.epoch(3, home.pairs((1, "a"))))
    assert home.asked("SELECT * FROM t") == [(1, "a")]


class Dying(SqliteSink):
    """Its process is killed in the middle of an epoch, once."""

    flag: Path

    def insert(self, connection: Any, batches: Iterable[Any]) -> int:
        written = super().insert(connection, batches)
        if self.flag.exists():
            self.flag.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return written


def dying(home: Home) -> Dying:
    sink = Dying(str(home.path), table("t", None), create=True, timeout=30)
    sink.flag = home.folder / "die"
    sink.flag.touch()
    return sink


def test_a_task_killed_inside_the_transaction_leaves_nothing_and_the_next_try_writes_all(
    home: Home,
) -> None:
    rows = home.spark.range(25_000)
    first, second = home.epoch(1, rows), home.epoch(2, rows)
    sink = checked(dying(home), first)
    handle = sink.pre_commit(first)
    with pytest.raises(Exception, match="worker exited unexpectedly"):
        sink.commit(first, handle)
    assert home.asked("SELECT COUNT(*) FROM t") == [(0,)]
    assert home.asked("SELECT COUNT(*) FROM holdfast_commits") == [(0,)]
    sink.recover_and_commit(first, handle)
    sink.commit(second, sink.pre_commit(second))
    assert home.asked("SELECT COUNT(*), COUNT(DISTINCT id) FROM t") == [(50_000, 25_000)]


WRITER = """
import sys, pyarrow as pa
from holdfast.sinks.sqlite.sink import sqlite
from holdfast.sinks.write_ahead import Marker

path, checkpoints = sys.argv[1], int(sys.argv[2])
sink = sqlite(path, "t")
rows = pa.RecordBatch.from_pydict({"k": list(range(1000)), "v": ["x"] * 1000})
print("ready", flush=True)
sys.stdin.readline()
for checkpoint in range(1, checkpoints + 1):
    sink.write(Marker("a" * 32, "out", checkpoint), iter([rows, rows]))
"""


def test_of_two_processes_that_commit_the_same_epochs_at_once_one_writes_each(home: Home) -> None:
    checked(sqlite(home.path, "t"), home.epoch(1, home.pairs()))
    command = [sys.executable, "-c", WRITER, str(home.path), "20"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=120)
    assert [writer.returncode for writer in writers] == [0, 0]
    counted = home.asked("SELECT COUNT(*), SUM(k) FROM t")
    assert counted == [(40_000, 40 * sum(range(1000)))]


def test_any_connection_of_a_db_api_module_will_do(home: Home) -> None:
    path = str(home.path)
    home.asked("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
    sink = write_ahead(lambda: sqlite3.connect(path), "t", key="k")
    first = home.epoch(1, home.pairs((1, "a"), (2, "b"), (1, "c")))
    committed(sink, first, first, home.epoch(2, home.pairs((2, "d"))))
    assert home.asked("SELECT * FROM t ORDER BY k") == [(1, "c"), (2, "d")]
    assert home.asked('SELECT "written" FROM holdfast_commits') == [(2,), (1,)]


# Whole


@pytest.mark.parametrize("key", [None, "id"])
def test_a_reader_never_sees_a_part_of_an_epoch(home: Home, key: str | None) -> None:
    size, epochs = 20_000, 4
    stop = threading.Event()
    seen: set[int] = set()
    staged = [
        home.epoch(n, home.spark.range(n * size, (n + 1) * size)) for n in range(1, epochs + 1)
    ]
    sink = checked(sqlite(home.path, "t", key=key), staged[0])

    def read() -> None:
        with closing(sqlite3.connect(home.path)) as connection:
            while not stop.is_set():
                seen.add(connection.execute("SELECT COUNT(*) FROM t").fetchone()[0])

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for n, epoch in enumerate(staged, 1):
            sink.commit(epoch, sink.pre_commit(epoch))
            until(partial(seen.__contains__, n * size))
    finally:
        stop.set()
        reader.join()
    assert seen <= {n * size for n in range(epochs + 1)}


# As they were

TYPES = """
    true AS bool, -128Y AS i8, -32768S AS i16, 2147483647 AS i32,
    9223372036854775807 AS i64, float(1.5) AS f32, double('-Infinity') AS f64,
    double(0.1) AS f, 12345678901234567890.123456789012345678BD AS big, 1.10BD AS price,
    CAST('0' AS DECIMAL(20, 18)) AS zero,
    'Grüße 🦑 ''quoted'' "double" \\n' AS text, X'00ff10' AS bytes,
    DATE'2024-02-29' AS day, DATE'0001-01-01' AS first_day,
    TIMESTAMP'2024-07-01 12:00:00.123456 Europe/Berlin' AS instant,
    TIMESTAMP_NTZ'2024-07-01 12:00:00.5' AS local,
    array(1, NULL, 3) AS list, map('a', 1.50BD, 'b', NULL) AS dict,
    map(1, 'x') AS numbered,
    named_struct('n', X'00ff', 'd', DATE'2024-01-01',
                 't', TIMESTAMP'2024-07-01 12:00:00 Europe/Berlin',
                 'deep', array(named_struct('x', double('NaN')))) AS struct,
    parse_json('{"a": [1, 2.50, "é"], "b": null}') AS var,
    CAST('fixed' AS CHAR(8)) AS fixed, CAST('vary' AS VARCHAR(8)) AS vary
"""

STORED = {
    "bool": 1,
    "i8": -128,
    "i16": -32768,
    "i32": 2147483647,
    "i64": 9223372036854775807,
    "f32": 1.5,
    "f64": float("-inf"),
    "f": 0.1,
    "big": "12345678901234567890.123456789012345678",
    "price": "1.10",
    "zero": "0.000000000000000000",
    "text": "Grüße 🦑 'quoted' \"double\" \n",
    "bytes": b"\x00\xff\x10",
    "day": "2024-02-29",
    "first_day": "0001-01-01",
    "instant": "2024-07-01 10:00:00.123456Z",
    "local": "2024-07-01 12:00:00.500000",
    "fixed": "fixed",
    "vary": "vary",
}

DOCUMENTS = {
    "list": [1, None, 3],
    "dict": {"a": 1.50, "b": None},
    "numbered": {"1": "x"},
    "var": {"a": [1, 2.5, "é"], "b": None},
}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_all_types_are_stored_as_documented(home: Home, zone: str) -> None:
    spark = home.spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", zone)
    full = spark.sql(f"SELECT {TYPES}")
    empty = full.select(*(sf.lit(None).cast(f.dataType).alias(f.name) for f in full.schema))
    committed(sqlite(home.path, "t"), Home(spark, home.folder).epoch(1, full.union(empty)))
    with closing(sqlite3.connect(home.path)) as connection:
        connection.row_factory = sqlite3.Row
        row, nulls = connection.execute("SELECT * FROM t ORDER BY bool IS NULL").fetchall()
    assert {name: row[name] for name in STORED} == STORED
    assert {name: json.loads(row[name]) for name in DOCUMENTS} == DOCUMENTS
    struct = json.loads(row["struct"])
    assert struct["n"] == "AP8="
    assert struct["d"] == "2024-01-01"
    assert struct["t"].startswith("2024-07-01") and "10:00:00" in struct["t"]  # noqa: PT018
    assert struct["deep"] == [{"x": "NaN"}]
    assert set(nulls) == {None}


def test_nan_becomes_null_and_bytes_that_are_no_text_are_marked(home: Home) -> None:
    rows = home.spark.sql(
        "SELECT double('NaN') AS f, 'a\\u0000b' AS nul, CAST(X'61ff' AS STRING) AS s"
    )
    committed(sqlite(home.path, "t"), home.epoch(1, rows))
    assert home.asked("SELECT * FROM t") == [(None, "a\0b", "a\ufffd")]


def test_odd_names_are_only_names(home: Home) -> None:
    names = ['sel"ect', "naïve; DROP TABLE t", "a b", "x?", ":p0", "%s", "'"]
    rows = home.spark.createDataFrame([tuple(range(len(names)))], names)
    odd = 'order "by" %s?'
    committed(sqlite(home.path, odd, key=names[:2]), home.epoch(1, rows), home.epoch(2, rows))
    quoted = odd.replace('"', '""')
    assert home.asked(f'SELECT * FROM "{quoted}"') == [tuple(range(len(names)))]


def test_the_path_may_have_any_characters_and_be_relative(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.folder)
    committed(sqlite("rö ws?#%.db", "t"), home.epoch(1, home.pairs((1, "a"))))
    with closing(sqlite3.connect(home.folder / "rö ws?#%.db")) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(1, "a")]


# Before the first row


def refused(home: Home, made: str, select: str, **options: Any) -> str:
    with closing(sqlite3.connect(home.path)) as connection:
        connection.executescript(made)
    schema = home.spark.sql(f"SELECT {select}").schema
    with pytest.raises(UsageError) as caught:
        check(sqlite(home.path, "t", **options), home.spark, schema)
    return str(caught.value)


def test_everything_that_does_not_fit_is_told_at_once(home: Home) -> None:
    told = refused(
        home,
        "CREATE TABLE t (k TEXT, n INTEGER, price DECIMAL(10, 2), must TEXT NOT NULL)",
        "1 AS k, 'x' AS n, 1.5BD AS price, 2 AS more",
        key="k",
    )
    for part in (
        "no column 'more'",
        "'k' is TEXT, rows have int (INTEGER would do)",
        "'n' is INTEGER, rows have string (TEXT would do)",
        "'price' is DECIMAL(10, 2), rows have decimal(2,1) (TEXT would do)",
        "wants a value for 'must'",
        "no unique index or primary key on exactly (k)",
    ):
        assert part in told


def test_a_table_may_differ_where_no_value_is_changed(home: Home) -> None:
    with closing(sqlite3.connect(home.path)) as connection:
        connection.executescript(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, K VARCHAR(10), at DATETIME, doc JSON,"
            " f NUMERIC, b BOOLEAN, any, made TEXT DEFAULT 'x' NOT NULL);"
            "CREATE UNIQUE INDEX u ON t (k);"
        )
    rows = home.spark.sql(
        "SELECT 'a' AS k, TIMESTAMP'2024-01-01 00:00:00Z' AS at, array(1) AS doc, 0.5D AS f,"
        " true AS b, '007' AS any"
    )
    committed(sqlite(home.path, "T", key="k", create=False), home.epoch(1, rows))
    found = home.asked("SELECT K, at, doc, f, b, any, made FROM t")
    assert found == [("a", "2024-01-01 00:00:00.000000Z", "[1]", 0.5, 1, "007", "x")]


def test_strict_tables_are_taken_at_their_word(home: Home) -> None:
    told = refused(
        home, "CREATE TABLE t (a BLOB, b ANY, c INT) STRICT", "'x' AS a, '7' AS b, 1 AS c"
    )
    assert "'a' is BLOB" in told
    assert "'b'" not in told
    assert "'c'" not in told


@pytest.mark.parametrize(
    ("select", "options", "reason"),
    [
        ("INTERVAL '1' DAY AS i", {}, "column 'i' is interval day"),
        ("array(INTERVAL '1' MONTH) AS i", {}, "column 'i' is array<interval month>"),
        ("1.0D AS k", {"key": "k"}, "key column 'k' may be NaN"),
        ("1 AS k", {"key": "z"}, "key of the sink is not among the columns: z"),
        ("1 AS k", {"create": False}, "the table does not exist"),
    ],
)
def test_rows_that_no_table_could_hold_are_refused(
    home: Home, select: str, options: dict[str, Any], reason: str
) -> None:
    assert reason in refused(home, "CREATE TABLE other (k)", select, **options)
    assert home.asked("SELECT name FROM sqlite_master") == [("other",)]


def test_a_view_is_refused(home: Home) -> None:
    assert "view" in refused(home, "CREATE VIEW t AS SELECT 1 AS k", "1 AS k")


def test_without_create_a_missing_file_is_not_made(home: Home) -> None:
    schema = home.pairs().schema
    with pytest.raises(StorageError, match="unable to open"):
        check(sqlite(home.path, "t", create=False), home.spark, schema)
    assert not home.path.exists()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((":memory:", "t"), {}),
        (("x.db", "other.t"), {}),
        (("x.db", ""), {}),
        (("x.db", "t"), {"delivery": "sometimes"}),
        (("x.db", "t"), {"delivery": "idempotent"}),
    ],
)
def test_wrong_arguments_are_refused(arguments: Sequence[str], options: Any) -> None:
    with pytest.raises(UsageError):
        sqlite(*arguments, **options)


def test_spark_on_other_machines_is_refused() -> None:
    class Elsewhere:
        class sparkContext:  # noqa: N801
            master = "spark://far:7077"

    with pytest.raises(UsageError, match="needs Spark on one machine"):
        refuse_remote(Elsewhere(), "rows.db")


# Trouble


def written(sink: SqliteSink, checkpoint: int = 1) -> None:
    import pyarrow as pa

    rows = pa.RecordBatch.from_pydict({"k": list(range(10_000)), "v": ["x" * 20] * 10_000})
    sink.write(Marker(JOB, "out", checkpoint), iter([rows]))


def test_a_writer_waits_for_another_one_and_says_so_if_that_takes_too_long(home: Home) -> None:
    sink, hasty = sqlite(home.path, "t"), sqlite(home.path, "t", timeout=0.05)
    assert isinstance(sink, SqliteSink)
    assert isinstance(hasty, SqliteSink)
    checked(sink, home.epoch(1, home.pairs()))
    other = sqlite3.connect(home.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="database is locked") as caught:
        written(hasty)
    assert caught.value.retryable
    assert "Another program" in str(caught.value.hint)
    waiting = threading.Thread(target=written, args=(sink,))
    waiting.start()
    assert home.asked("SELECT COUNT(*) FROM t") == [(0,)]
    other.rollback()
    waiting.join(60)
    other.close()
    assert home.asked("SELECT COUNT(*) FROM t") == [(10_000,)]


@dataclass(frozen=True)
class Limited:
    """Connects with a setting that stands for a disk which is full, or not writable."""

    inner: Connecting
    pragma: str

    def __call__(self) -> sqlite3.Connection:
        connection = self.inner()
        connection.execute(f"PRAGMA {self.pragma}")
        return connection


@pytest.mark.parametrize(
    ("pragma", "says", "hint"),
    [
        ("max_page_count = 20", "full", "Make room"),
        ("query_only = ON", "readonly", "must be writable"),
    ],
)
def test_a_full_disk_and_a_read_only_file_are_told_and_the_next_try_writes_once(
    home: Home, pragma: str, says: str, hint: str
) -> None:
    sink = SqliteSink(str(home.path), table("t", None), create=True, timeout=1)
    checked(sink, home.epoch(1, home.pairs()))
    limited = SqliteSink(str(home.path), table("t", None), create=True, timeout=1)
    limited._connect = Limited(Connecting(str(home.path), True, 1), pragma)
    with pytest.raises(StorageError, match=says) as caught:
        written(limited)
    assert hint in str(caught.value.hint)
    assert caught.value.retryable
    assert home.asked("SELECT COUNT(*) FROM t") == [(0,)]
    written(sink)
    written(sink)
    assert home.asked("SELECT COUNT(*) FROM t") == [(10_000,)]


def test_a_file_that_is_no_database_is_told(home: Home) -> None:
    home.path.write_text("a letter to a friend, which is long enough to be read" * 100)
    with pytest.raises(StorageError, match="not a database"):
        check(sqlite(home.path, "t"), home.spark, home.pairs().schema)


def test_a_new_database_never_blocks_readers_and_an_old_one_keeps_its_mode(home: Home) -> None:
    committed(sqlite(home.path, "t"), home.epoch(1, home.pairs((1, "a"))))
    assert home.asked("PRAGMA journal_mode") == [("wal",)]
    old = Home(home.spark, home.folder / "old")
    old.folder.mkdir()
    old.asked("CREATE TABLE other (k)")
    committed(sqlite(old.path, "t"), old.epoch(1, home.pairs((1, "a"))))
    assert old.asked("PRAGMA journal_mode") == [("delete",)]


# Idempotent


def test_idempotent_rows_are_visible_at_once_and_may_come_again(home: Home) -> None:
    sink = sqlite(home.path, "t", key="k", delivery="idempotent")
    assert isinstance(sink, hf.sinks.PlainSink)
    first = home.pairs((1, "a"), (2, "b"), (1, "c"))
    sink.write(first, 0)
    assert home.asked("SELECT * FROM t ORDER BY k") == [(1, "c"), (2, "b")]
    sink.write(first, 0)
    sink.write(home.pairs((2, "d"), (3, None)), 1)
    sink.write(home.pairs(), 2)
    assert home.asked("SELECT * FROM t ORDER BY k") == [(1, "c"), (2, "d"), (3, None)]


def test_idempotent_rows_without_key_fail_the_batch_as_a_whole(home: Home) -> None:
    sink: Any = sqlite(home.path, "t", key="k", delivery="idempotent")
    with pytest.raises(PySparkException, match="no value in key column"):
        sink.write(home.pairs((1, "a"), (None, "b")), 0)
    assert home.asked("SELECT * FROM t") == []
