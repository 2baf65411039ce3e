"""The rules of two-phase sinks, kept by the one for MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from holdfast.sinks.mysql import xa as mysql_xa
from holdfast.sinks.mysql.sink import MySqlSink, mysql
from holdfast.testing.sinks import Row, TwoPhaseCommitContract
from tests.services.mariadb_server import MariaDbServer

_numbers = count(1)
_TEXT = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


class TestMySql(TwoPhaseCommitContract):
    stride = 37  # the driver alone has many steps on its way to the server

    @pytest.fixture(autouse=True)
    def store(self, mariadb: MariaDbServer) -> Iterator[None]:
        self.server = mariadb
        self.table = f"contract{next(_numbers)}"
        # Without a key in the sink the same rows may come twice, so the table has none either.
        mariadb.run(
            f"CREATE TABLE {self.table} (id BIGINT, text {_TEXT})",
            f"CREATE TABLE {self.table}_keyed (id BIGINT PRIMARY KEY, text {_TEXT})",
        )
        yield
        # The server has one list for all tables, and all tests use the same names.
        connection = mariadb.connect(autocommit=True)
        for name in mysql_xa.prepared(connection):
            mysql_xa.finish(connection, "ROLLBACK", name)
        connection.close()

    def make_sink(self) -> MySqlSink:
        sink = mysql(self.server.url, self.table)
        assert isinstance(sink, MySqlSink)
        return sink

    def make_keyed_sink(self) -> MySqlSink:
        url = f"{self.server.url}?lock_wait_timeout=1"
        sink = mysql(url, f"{self.table}_keyed", key="id", parallelism=2)
        assert isinstance(sink, MySqlSink)
        return sink

    def visible(self) -> list[Row]:
        query = f"SELECT * FROM {self.table} UNION ALL SELECT * FROM {self.table}_keyed"
        return self.server.run("SET NAMES utf8mb4", query)

    def restart_store(self) -> None:
        self.server.kill()
        self.server.start()
