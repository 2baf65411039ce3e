"""The rules of write-ahead sinks, kept over the DB-API modules of real servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from holdfast.sinks.dbapi.sink import DbApiSink, write_ahead
from holdfast.testing.sinks import Row, WriteAheadContract
from tests.faults.jobs.stores import connect
from tests.services.mariadb_server import MariaDbServer
from tests.services.postgres_server import PostgresServer

_numbers = count(1)


@dataclass(frozen=True)
class Connecting:
    """What a user would give as ``connect``."""

    kind: str
    url: str

    def __call__(self) -> Any:
        return connect(self.kind, self.url)


class Columns:
    """As much of a Spark schema as ``check`` looks at; of types that every driver knows."""

    fields: tuple[Any, ...] = ()

    def fieldNames(self) -> list[str]:  # noqa: N802
        return ["id", "text"]


class OnServer(WriteAheadContract):
    stride = 400  # the steps of the drivers are tested with sinks of their own
    quote = '"'
    connecting: Connecting

    def tables(self, text: str) -> None:
        """Make them; a keyed sink has one of its own, as without a key rows may come twice."""
        self.run(f"CREATE TABLE rows_plain (id BIGINT, text {text})")
        self.run(f"CREATE TABLE rows_keyed (id BIGINT PRIMARY KEY, text {text})")
        self.make_sink().check(None, Columns())

    def run(self, statement: str) -> list[Any]:
        connection = self.connecting()
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            found = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
        finally:
            connection.close()
        return found

    def make_sink(self) -> DbApiSink:
        return write_ahead(self.connecting, "rows_plain", quote=self.quote)

    def make_keyed_sink(self) -> DbApiSink:
        return write_ahead(self.connecting, "rows_keyed", key="id", quote=self.quote)

    def visible(self) -> list[Row]:
        return self.run("SELECT id, text FROM rows_plain UNION ALL SELECT id, text FROM rows_keyed")


class TestPsycopg(OnServer):
    @pytest.fixture(autouse=True)
    def store(self, postgres: PostgresServer) -> None:
        self.connecting = Connecting("postgres", postgres.new_database())
        self.tables("text")


class TestPyMySql(OnServer):
    quote = "`"

    @pytest.fixture(autouse=True)
    def store(self, mariadb: MariaDbServer) -> Iterator[None]:
        name = f"ahead{next(_numbers)}"
        mariadb.run(f"CREATE DATABASE {name}")
        self.connecting = Connecting("mysql", f"mysql://root@127.0.0.1:{mariadb.port}/{name}")
        self.tables("LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        yield
        mariadb.run(f"DROP DATABASE {name}")
