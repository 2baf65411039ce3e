"""Rows per second into SQLite: an epoch, exactly once, against what people write by hand.

By hand means a function for ``foreachBatch``: ``toPandas``, then ``to_sql`` to append or
``INSERT OR REPLACE`` to replace by key. After a crash it repeats rows: only its speed counts here.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.measure import in_turn
from holdfast.sinks import Epoch, EpochSegment
from holdfast.sinks.sqlite.sink import SqliteSink, sqlite
from holdfast.sinks.write_ahead import WriteAhead

ROWS = 300_000
ROUNDS = 3
Write = Callable[[DataFrame, sqlite3.Connection], None]


@dataclass(frozen=True, slots=True)
class Speed:
    """Rows per second."""

    what: str
    sink: float
    by_hand: float

    @property
    def ratio(self) -> float:
        return self.sink / self.by_hand


def measure(spark: SparkSession) -> list[Speed]:
    """Appending and replacing, medians in turn."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        home = Path(scratch)
        epoch = staged(spark, home / "segments" / "0-rows")
        works: dict[str, Callable[[Path], None]] = {
            "append": partial(by_sink, epoch, None),
            "append by hand": partial(by_hand, epoch, append),
            "replace": partial(by_sink, epoch, "id"),
            "replace by hand": partial(by_hand, epoch, replace),
        }
        taken = in_turn(works, home, ROUNDS)
    return [
        Speed(what, ROWS / taken[what], ROWS / taken[f"{what} by hand"])
        for what in ("append", "replace")
    ]


def staged(spark: SparkSession, folder: Path) -> Epoch:
    rows = spark.range(ROWS).selectExpr(
        "id",
        "concat('name-', id % 1000) AS name",
        "id / 7 AS amount",
        "timestamp_micros(1700000000000000 + id * 1000) AS at",
    )
    rows.write.parquet(str(folder))
    files = tuple(sorted(str(file) for file in folder.glob("*.parquet")))
    return Epoch("0" * 32, 1, "out", 1, [EpochSegment(0, files, 0)], spark, rows.schema)


def by_sink(epoch: Epoch, key: str | None, home: Path) -> None:
    home.mkdir()
    made = sqlite(home / "rows.db", "t", key=key)
    assert isinstance(made, SqliteSink)
    sink = WriteAhead(made)
    sink.check(epoch.spark, epoch.schema)
    sink.commit(epoch, sink.pre_commit(epoch))
    refuse_missing_rows(home)


def by_hand(epoch: Epoch, write: Write, home: Path) -> None:
    home.mkdir()
    with closing(sqlite3.connect(home / "rows.db")) as connection:
        write(epoch.rows(), connection)
    refuse_missing_rows(home)


def append(rows: DataFrame, connection: sqlite3.Connection) -> None:
    rows.toPandas().to_sql("t", connection, if_exists="append", index=False)


def replace(rows: DataFrame, connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, amount REAL, at TEXT)")
    frame = rows.toPandas().astype({"at": str})
    with connection:
        connection.executemany(
            "INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?)", frame.itertuples(index=False, name=None)
        )


def refuse_missing_rows(home: Path) -> None:
    with closing(sqlite3.connect(home / "rows.db")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (ROWS,)


def measure_alone() -> list[Speed]:
    """In a Spark of its own."""
    from holdfast.spark.session import local_session

    arrow = {"spark.sql.execution.arrow.pyspark.enabled": "true"}
    return measure(local_session("holdfast-bench", **{"spark.master": "local[2]", **arrow}))
