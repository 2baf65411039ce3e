"""Rows into PostgreSQL: the sink, exactly once, against Spark's JDBC writer without guarantees."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from tests.services.postgres_server import PostgresServer, postgres_server

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
from holdfast.sinks.interface import Epoch
from holdfast.sinks.postgres.sink import postgres

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = int(os.environ.get("BENCH_SINK_ROWS", "400000"))
JDBC_DRIVER = "org.postgresql:postgresql:42.5.4"


def measure(rows: int = ROWS, rounds: int = ROUNDS) -> Speeds:
    """In turn, each several times, into an empty table each time."""
    spark = session_with(JDBC_DRIVER)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        epoch = stage(spark, rows, Path(scratch))
        with postgres_server() as server:
            return compare(server, epoch, rows, rounds)


def compare(server: PostgresServer, epoch: Epoch, rows: int, rounds: int) -> Speeds:
    """Let all ways write the same rows."""
    url = server.url()
    ways: dict[str, Callable[[], None]] = {
        SINK: lambda: exactly_once(epoch, postgres(url, "out")),
        JDBC: lambda: jdbc(epoch.rows(), server, ""),
        SINK_TWO: lambda: exactly_once(epoch, postgres(url, "out", parallelism=2)),
        JDBC_REWRITE: lambda: jdbc(epoch.rows(), server, "?reWriteBatchedInserts=true"),
        UPSERT: lambda: exactly_once(epoch, postgres(url, "out", key="id")),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, write in ways.items():
            fresh_table(url, with_key=name == UPSERT)
            began = time.perf_counter()
            write()
            if number:  # the first round only warms up
                taken[name].append(time.perf_counter() - began)
            refuse_other_count(url, rows, name)
    return Speeds(rows, rounds, {n: rows / statistics.median(times) for n, times in taken.items()})


def jdbc(rows: DataFrame, server: PostgresServer, options: str) -> None:
    rows.write.format("jdbc").options(
        url=f"jdbc:postgresql://127.0.0.1:{server.port}/postgres{options}",
        dbtable="out",
        user="postgres",
        driver="org.postgresql.Driver",
    ).mode("append").save()


def fresh_table(url: str, with_key: bool) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS out")
        key = "PRIMARY KEY" if with_key else ""
        connection.execute(
            f"CREATE TABLE out (id bigint {key}, name text, quantity integer, "
            "amount double precision, price numeric(12, 2), at timestamptz, paid boolean)".encode()
        )
        connection.execute("CHECKPOINT")  # what others left to be written is not this one's burden


def refuse_other_count(url: str, rows: int, name: str) -> None:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM out").fetchone()
    if found != (rows,):
        raise AssertionError(f"{name} wrote {found} rows of {rows}")
