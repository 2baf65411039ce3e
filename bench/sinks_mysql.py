"""Rows into MariaDB: the sink, exactly once, against Spark's JDBC writer without guarantees."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.mariadb_server import DATABASE, PASSWORD, USER, MariaDbServer, mariadb_server
from tests.services.processes import LOOPBACK

from bench.databases import (
    JDBC,
    JDBC_REWRITE,
    ROUNDS,
    SINK,
    SINK_TWO,
    UPSERT,
    Speeds,
    exactly_once,
    session_with,
    stage,
)
from bench.measure import in_turn
from holdfast.sinks.interface import Epoch
from holdfast.sinks.mysql.sink import mysql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = int(os.environ.get("BENCH_MYSQL_ROWS", "200000"))
JDBC_DRIVER = "org.mariadb.jdbc:mariadb-java-client:2.7.6"


def measure(rows: int = ROWS, rounds: int = ROUNDS) -> Speeds:
    """In turn, each several times, into an empty table each time."""
    spark = session_with(JDBC_DRIVER)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        epoch = stage(spark, rows, Path(scratch))
        with mariadb_server() as server:
            return compare(server, epoch, rows, rounds, Path(scratch))


def compare(server: MariaDbServer, epoch: Epoch, rows: int, rounds: int, home: Path) -> Speeds:
    """Let all ways write the same rows."""
    url = server.url
    ways: dict[str, Callable[[], None]] = {
        SINK: lambda: exactly_once(epoch, mysql(url, "appended")),
        JDBC: lambda: jdbc(epoch.rows(), server, ""),
        SINK_TWO: lambda: exactly_once(epoch, mysql(url, "appended", parallelism=2)),
        JDBC_REWRITE: lambda: jdbc(epoch.rows(), server, "?rewriteBatchedStatements=true"),
        UPSERT: lambda: exactly_once(epoch, mysql(url, "replaced", key="id")),
    }
    make_tables(server)
    taken = in_turn({name: emptied(server, rows, way) for name, way in ways.items()}, home, rounds)
    return Speeds(rows, rounds, {name: rows / seconds for name, seconds in taken.items()})


def emptied(server: MariaDbServer, rows: int, write: Callable[[], None]) -> Callable[[Path], None]:
    """Into empty tables, which takes milliseconds; all rows must be there in the end."""

    def work(_: Path) -> None:
        server.run("TRUNCATE appended", "TRUNCATE replaced")
        write()
        counts = server.run("SELECT (SELECT count(*) FROM appended), count(*) FROM replaced")
        if sorted(counts[0]) != [0, rows]:
            raise AssertionError(f"{counts[0]} rows were written instead of {rows}")

    return work


def jdbc(rows: DataFrame, server: MariaDbServer, options: str) -> None:
    rows.write.format("jdbc").options(
        url=f"jdbc:mysql://{LOOPBACK}:{server.port}/{DATABASE}{options}",
        dbtable="appended",
        user=USER,
        password=PASSWORD,
        driver="org.mariadb.jdbc.Driver",
    ).mode("append").save()


def make_tables(server: MariaDbServer) -> None:
    for name, key in (("appended", ""), ("replaced", "PRIMARY KEY")):
        server.run(
            f"CREATE TABLE {name} (id BIGINT {key}, name LONGTEXT, quantity INT, amount DOUBLE, "
            "price DECIMAL(12, 2), at DATETIME(6), paid BOOLEAN) DEFAULT CHARSET=utf8mb4"
        )
