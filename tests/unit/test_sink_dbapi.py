"""The write-ahead sink over plain DB-API connections; sqlite3 stands for all modules."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DecimalType,
    LongType,
    StructField,
    StructType,
    TimeType,
)

from holdfast.errors import StorageError, UsageError
from holdfast.sinks.dbapi.markers import KEPT
from holdfast.sinks.dbapi.sink import DbApiSink, write_ahead
from holdfast.sinks.dbapi.statements import Dialect, ParamStyle, Upsert, insert, writing
from holdfast.sinks.tables import table
from holdfast.sinks.write_ahead import Marker, WriteAhead


@dataclass(frozen=True)
class Opening:
    """What a user would give as ``connect``."""

    path: Path
    isolation: Any = ""
    schema: str = ""

    def __call__(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=0.1, isolation_level=self.isolation)


class Columns:
    """As much of a Spark schema as ``check`` looks at; of types that every driver knows."""

    fields: tuple[Any, ...] = ()

    def __init__(self, *names: str) -> None:
        self._names = names

    def fieldNames(self) -> list[str]:  # noqa: N802
        return list(self._names)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT, extra TEXT DEFAULT 'x')")
    return path


def asked(path: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as connection:
        return connection.execute(query).fetchall()


def rows(**columns: list[Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict(columns)])


def sink(path: Path, **options: Any) -> DbApiSink:
    made = write_ahead(Opening(path), "t", **options)
    made.check(None, Columns("k", "v"))
    return made


def marker(checkpoint: int, uid: str = "out") -> Marker:
    return Marker("a" * 32, uid, checkpoint)


def test_an_epoch_is_written_once_however_often_it_is_committed(path: Path) -> None:
    table = sink(path)
    for _ in range(3):
        table.write(marker(1), rows(k=[1, 2], v=["a", None]))
    table.write(marker(2), rows(k=[3], v=["c"]))
    table.write(marker(1), rows(k=[9], v=["late"]))
    assert asked(path, "SELECT k, v FROM t ORDER BY k") == [(1, "a"), (2, None), (3, "c")]
    kept = asked(path, 'SELECT "sink", "checkpoint", "written" FROM holdfast_commits')
    assert kept == [("out", 1, 2), ("out", 2, 1)]


def test_values_that_the_driver_does_not_know_are_refused_before_the_first_row(path: Path) -> None:
    asked(path, "CREATE TABLE odd (price TEXT, at TEXT, day TEXT, raw BLOB, id INTEGER)")
    schema = StructType(
        [
            StructField("price", DecimalType(10, 2)),
            StructField("at", TimeType()),
            StructField("day", DateType()),
            StructField("raw", BinaryType()),
            StructField("id", LongType()),
        ]
    )
    table = write_ahead(Opening(path), "odd")
    with pytest.raises(UsageError) as told:
        table.check(None, schema)
    problems = [line for line in told.value.message.splitlines() if line.startswith("  - ")]
    assert problems == ["  - column 'price' is decimal(10,2)", "  - column 'at' is time(6)"]
    text_only = StructType([field for field in schema.fields if field.name in ("day", "raw", "id")])
    table.check(None, text_only)


def test_a_database_that_cannot_be_asked_for_a_value_refuses_none(path: Path) -> None:
    class Oracular(sqlite3.Cursor):
        def execute(self, text: str, *values: Any) -> Any:
            if text == "SELECT ?":
                raise sqlite3.OperationalError("FROM keyword not found where expected")
            return super().execute(text, *values)

    class Oracle(sqlite3.Connection):
        def cursor(self, factory: Any = Oracular) -> Any:
            return super().cursor(factory)

    asked(path, "CREATE TABLE odd (price TEXT)")
    table = write_ahead(lambda: sqlite3.connect(path, factory=Oracle), "odd", paramstyle="qmark")
    table.check(None, StructType([StructField("price", DecimalType(10, 2))]))


def test_an_epoch_that_the_table_will_never_take_can_be_left_out(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TRIGGER no BEFORE INSERT ON t WHEN NEW.v = 'bad'"
                           " BEGIN SELECT RAISE(ABORT, 'never'); END")  # fmt: skip
    table = sink(path)
    for _ in range(2):
        with pytest.raises(UsageError, match="never"):
            table.write(marker(1), rows(k=[1, 2], v=["good", "bad"]))
    WriteAhead(table).drop({"job_id": "a" * 32, "checkpoint": 1}, "out")
    table.write(marker(1), rows(k=[1, 2], v=["good", "bad"]))
    table.write(marker(2), rows(k=[3], v=["good"]))
    assert asked(path, "SELECT k FROM t") == [(3,)]


def test_an_epoch_that_has_been_written_is_not_left_out_any_more(path: Path) -> None:
    table = sink(path)
    table.write(marker(1), rows(k=[1], v=["a"]))
    WriteAhead(table).drop({"job_id": "a" * 32, "checkpoint": 1}, "out")
    assert asked(path, "SELECT k FROM t") == [(1,)]


def test_sinks_and_jobs_do_not_see_each_others_markers(path: Path) -> None:
    table = sink(path)
    table.write(marker(5), rows(k=[1], v=["a"]))
    table.write(marker(1, "other"), rows(k=[2], v=["b"]))
    table.write(Marker("b" * 32, "out", 1), rows(k=[3], v=["c"]))
    assert asked(path, "SELECT COUNT(*) FROM t") == [(3,)]


def test_only_the_newest_markers_are_kept_and_the_oldest_epoch_still_counts_as_written(
    path: Path,
) -> None:
    table = sink(path)
    for checkpoint in (1, 2, 3 + KEPT):
        table.write(marker(checkpoint), rows(k=[checkpoint], v=["a"]))
    assert asked(path, 'SELECT "checkpoint" FROM holdfast_commits') == [(3 + KEPT,)]
    table.write(marker(1), rows(k=[1000], v=["again"]))
    assert asked(path, "SELECT COUNT(*) FROM t") == [(3,)]


def test_rows_that_fail_in_the_middle_leave_nothing_behind(path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(k=[1], v=["a"])
        raise RuntimeError("no more")

    table = sink(path)
    with pytest.raises(RuntimeError, match="no more"):
        table.write(marker(1), broken())
    assert asked(path, "SELECT * FROM t") == []
    assert asked(path, "SELECT * FROM holdfast_commits") == []
    table.write(marker(1), rows(k=[1], v=["a"]))
    assert asked(path, "SELECT k FROM t") == [(1,)]


def test_a_commit_whose_answer_got_lost_has_succeeded(path: Path) -> None:
    class Answerless(DbApiSink):
        """Commits, and does not live to hear it."""

        def _write(self, marker: Marker, batches: Iterator[pa.RecordBatch]) -> None:
            super()._write(marker, batches)
            raise StorageError("the connection is gone")

    Answerless(Opening(path), sink(path).target).write(marker(1), rows(k=[1], v=["a"]))
    assert asked(path, "SELECT k FROM t") == [(1,)]


@pytest.mark.parametrize("upsert", ["delete-insert", "on-conflict"])
@pytest.mark.parametrize("style", [None, "qmark", "named"])
def test_rows_replace_those_of_the_same_key(path: Path, upsert: Upsert, style: Any) -> None:
    table = sink(path, key="k", upsert=upsert, paramstyle=style)
    table.write(marker(1), rows(k=[1, 2], v=["a", "b"]))
    table.write(marker(2), rows(k=[2, 3], v=["B", "c"]))
    assert asked(path, "SELECT k, v FROM t ORDER BY k") == [(1, "a"), (2, "B"), (3, "c")]


def test_a_connection_in_autocommit_mode_is_refused_before_the_first_row(path: Path) -> None:
    table = write_ahead(Opening(path, isolation=None), "t")
    with pytest.raises(UsageError, match="cannot roll back"):
        table.check(None, Columns("k", "v"))
    assert asked(path, "SELECT * FROM holdfast_commits") == []


def test_missing_columns_and_tables_are_refused_before_the_first_row(path: Path) -> None:
    table = write_ahead(Opening(path), "t")
    with pytest.raises(UsageError) as caught:
        table.check(None, Columns("k", "w", "z"))
    assert "no column 'w'" in str(caught.value)
    assert "no column 'z'" in str(caught.value)
    with pytest.raises(UsageError, match="no such table"):
        write_ahead(Opening(path), "nowhere").check(None, Columns("k"))


def test_a_database_that_cannot_be_reached_is_worth_another_try(tmp_path: Path) -> None:
    table = write_ahead(Opening(tmp_path / "no" / "rows.db"), "t")
    with pytest.raises(StorageError, match="could not connect") as caught:
        table.write(marker(1), rows(k=[1], v=["a"]))
    assert caught.value.retryable


def test_rows_that_the_table_refuses_are_a_mistake_of_the_user(path: Path) -> None:
    table = sink(path)
    with pytest.raises(UsageError, match="UNIQUE constraint"):
        table.write(marker(1), rows(k=[1, 1], v=["a", "b"]))
    assert asked(path, "SELECT * FROM t") == []


def test_values_that_the_driver_does_not_take_are_told_by_type(path: Path) -> None:
    table = sink(path)
    with pytest.raises(UsageError, match=r"[Dd]ecimal"):
        table.write(marker(1), rows(k=[1], v=[Decimal("1.5")]))


def test_the_paramstyle_must_be_given_if_the_module_does_not_tell(path: Path) -> None:
    class Pooled:
        def close(self) -> None: ...

    table = write_ahead(Pooled, "t")
    with pytest.raises(UsageError, match=r"paramstyle of .*Pooled"):
        table.write(marker(1), rows(k=[1], v=["a"]))


def test_wrong_arguments_are_refused_at_once(path: Path) -> None:
    with pytest.raises(UsageError, match="no paramstyle 'percent'"):
        write_ahead(Opening(path), "t", paramstyle="percent")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no upsert 'merge'"):
        write_ahead(Opening(path), "t", upsert="merge")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="function that opens"):
        write_ahead(Opening(path)(), "t")  # type: ignore[arg-type]


def test_a_sink_can_be_pickled_after_it_was_used(path: Path) -> None:
    table = sink(path)
    table.write(marker(1), rows(k=[1], v=["a"]))
    again = pickle.loads(pickle.dumps(table))
    again.write(marker(1), rows(k=[1], v=["a"]))
    assert asked(path, "SELECT COUNT(*) FROM t") == [(1,)]


@pytest.mark.parametrize("style", get_args(ParamStyle))
def test_every_paramstyle_has_its_own_placeholders_and_parameters(style: ParamStyle) -> None:
    dialect = Dialect(style)
    text = insert(dialect, table("s.t", None), ["a", "50%"]).text
    (bound,) = dialect.bind([(1, 2)])
    expected: dict[str, tuple[str, object]] = {
        "qmark": ('("a", "50%") VALUES (?, ?)', (1, 2)),
        "numeric": ('("a", "50%") VALUES (:1, :2)', (1, 2)),
        "named": ('("a", "50%") VALUES (:p0, :p1)', {"p0": 1, "p1": 2}),
        "format": ('("a", "50%%") VALUES (%s, %s)', (1, 2)),
        "pyformat": ('("a", "50%%") VALUES (%(p0)s, %(p1)s)', {"p0": 1, "p1": 2}),
    }
    assert (text, bound) == (f'INSERT INTO "s"."t" {expected[style][0]}', expected[style][1])


def test_upserts_in_the_words_of_each_database() -> None:
    target, columns = table("t", ["k"]), ["k", "v"]
    written = {
        upsert: [s.text for s in writing(Dialect("qmark", "`", upsert), target, columns)]
        for upsert in get_args(Upsert)
    }
    adding = "INSERT INTO `t` (`k`, `v`) VALUES (?, ?)"
    assert written == {
        "delete-insert": ["DELETE FROM `t` WHERE `k` = ?", adding],
        "on-conflict": [f"{adding} ON CONFLICT (`k`) DO UPDATE SET `v` = excluded.`v`"],
        "on-duplicate-key": [f"{adding} ON DUPLICATE KEY UPDATE `v` = VALUES(`v`)"],
    }


def test_a_table_of_nothing_but_its_key_takes_a_row_once() -> None:
    statements = [
        writing(Dialect("qmark", '"', upsert), table("t", "k"), ["k"])[-1].text
        for upsert in ("on-conflict", "on-duplicate-key")
    ]
    assert statements[0].endswith('ON CONFLICT ("k") DO NOTHING')
    assert statements[1].endswith('ON DUPLICATE KEY UPDATE "k" = VALUES("k")')
