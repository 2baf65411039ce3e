"""Rows into MariaDB: the sink, exactly once, against Spark's JDBC writer without guarantees."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.mariadb_server import DATABASE, PASSWORD, USER, MariaDbServer, mariadb_server
from tests.services.processes import LOOPBACK

from bench.measure import in_turn
from holdfast.sinks.distributed import Distributed
from holdfast.sinks.interface import Epoch, EpochSegment
from holdfast.sinks.mysql.sink import mysql
from holdfast.sinks.two_phase import TwoPhaseCommitSink
from holdfast.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = int(os.environ.get("HOLDFAST_BENCH_MYSQL_ROWS", "200000"))
ROUNDS = 3
JDBC_JAR = "/usr/share/java/mariadb-java-client.jar"
"""Debian: apt-get install libmariadb-java."""

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
        with mariadb_server() as server:
            return compare(server, epoch, rows, rounds, Path(scratch))


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


def exactly_once(epoch: Epoch, sink: object) -> None:
    assert isinstance(sink, TwoPhaseCommitSink)
    distributed = Distributed(sink)
    distributed.commit(epoch, distributed.pre_commit(epoch))


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


if __name__ == "__main__":
    speeds = measure()
    print(speeds, f"ratio {speeds.ratio:.2f}, to the best {speeds.ratio_to_best:.2f}")
