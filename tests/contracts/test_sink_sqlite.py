"""SQLite keeps the rules of write-ahead sinks, by its own sink and by the one for any DB-API."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from holdfast.sinks.dbapi.sink import write_ahead
from holdfast.sinks.sqlite.sink import sqlite
from holdfast.sinks.write_ahead import WriteAheadSink
from holdfast.testing.sinks import WriteAheadContract

COLUMNS = StructType([StructField("id", LongType()), StructField("text", StringType())])


class InSqlite(WriteAheadContract):
    @pytest.fixture(autouse=True)
    def _tables(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "rows.db")
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE appended (id INTEGER, text TEXT)")
            connection.execute("CREATE TABLE keyed (id INTEGER PRIMARY KEY, text TEXT)")
        made = write_ahead(partial(sqlite3.connect, self.path), "appended")
        made.check(None, COLUMNS)

    def visible(self) -> Iterable[Any]:
        both = "SELECT id, text FROM appended UNION ALL SELECT id, text FROM keyed"
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(both).fetchall()


class TestSqlite(InSqlite):
    def make_sink(self) -> WriteAheadSink:
        sink = sqlite(self.path, "appended")
        assert isinstance(sink, WriteAheadSink)
        return sink

    def make_keyed_sink(self) -> WriteAheadSink:
        sink = sqlite(self.path, "keyed", key="id")
        assert isinstance(sink, WriteAheadSink)
        return sink


class TestDbApi(InSqlite):
    def make_sink(self) -> WriteAheadSink:
        return write_ahead(partial(sqlite3.connect, self.path), "appended")

    def make_keyed_sink(self) -> WriteAheadSink:
        return write_ahead(partial(sqlite3.connect, self.path), "keyed", key="id")
