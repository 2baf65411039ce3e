"""Rows into PostgreSQL: the sink, exactly once, against Spark's JDBC writer without guarantees."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from tests.services.postgres_server import PostgresServer, postgres_server

from holdfast.sinks.distributed import Distributed
from holdfast.sinks.interface import Epoch, EpochSegment
from holdfast.sinks.postgres.sink import postgres
from holdfast.sinks.two_phase import TwoPhaseCommitSink
from holdfast.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = int(os.environ.get("HOLDFAST_BENCH_SINK_ROWS", "1000000"))
ROUNDS = 3
JDBC_JAR = "/usr/share/java/postgresql.jar"
"""Debian: apt-get install libpostgresql-jdbc-java."""

SINK, SINK_TWO, UPSERT = "sink", "sink, 2 parts", "sink, upsert of new keys"
JDBC, JDBC_REWRITE = "JDBC", "JDBC, statements joined"


@dataclass(frozen=True, slots=True)
class Speeds:
    """Rows per second of each way, a median."""

    rows: int
    rounds: int
    per_second: dict[str, float]

    @property
    def ratio(self) -> float:
        """The sink as users get it against Spark's writer as users get it."""
        return self.per_second[SINK] / self.per_second[JDBC]

    @property
    def ratio_to_best(self) -> float:
        """The same against Spark's writer with the driver's fastest setting."""
        return self.per_second[SINK] / max(self.per_second[JDBC], self.per_second[JDBC_REWRITE])


def measure(rows: int = ROWS, rounds: int = ROUNDS) -> Speeds:
    """In turn, each several times, into an empty table each time."""
    spark = local_session("holdfast-bench", **{"spark.jars": JDBC_JAR})
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        epoch = stage(spark, rows, Path(scratch))
        with postgres_server() as server:
            return compare(server, epoch, rows, rounds)


def stage(spark: SparkSession, rows: int, home: Path) -> Epoch:
    """Rows of several types, as a region has left them."""
    frame = spark.range(rows, numPartitions=4).selectExpr(
        "id",
        "concat('customer \"', id % 1000, '\"') AS name",
        "CAST(id % 97 AS int) AS quantity",
        "id / 7 AS amount",
        "CAST(id / 100 AS decimal(12, 2)) AS price",
        "timestamp_micros(1700000000000000 + id * 1000) AS at",
        "IF(id % 10 = 0, NULL, id % 2 = 0) AS paid",
    )
    folder = home / "0-bench"
    frame.write.parquet(str(folder))
    files = tuple(str(path) for path in sorted(folder.glob("*.parquet")))
    size = sum(Path(file).stat().st_size for file in files)
    return Epoch("0" * 32, 1, "out", 1, [EpochSegment(0, files, size)], spark, frame.schema)


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


def exactly_once(epoch: Epoch, sink: object) -> None:
    assert isinstance(sink, TwoPhaseCommitSink)
    distributed = Distributed(sink)
    distributed.commit(epoch, distributed.pre_commit(epoch))


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
