"""What the benchmarks of database sinks share: staged rows, the ways to write them, speeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.jars import brought

from holdfast.sinks.distributed import Distributed
from holdfast.sinks.interface import Epoch, EpochSegment
from holdfast.sinks.two_phase import TwoPhaseCommitSink
from holdfast.spark.session import local_session
from holdfast.testing import maven

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 3
SINK, SINK_TWO, UPSERT = "sink", "sink, 2 parts", "sink, upsert of new keys"
JDBC, JDBC_REWRITE = "JDBC", "JDBC, statements joined"


@dataclass(frozen=True, slots=True)
class Speeds:
    """Rows per second of each way, a median."""

    rows: int
    rounds: int
    per_second: dict[str, float]


def session_with(driver: str) -> SparkSession:
    """Spark, with a JDBC driver that Maven brings."""
    return local_session(
        "holdfast-bench", **{"spark.jars": str(brought(lambda: maven.jar(driver)))}
    )


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


def exactly_once(epoch: Epoch, sink: object) -> None:
    """From staged rows to visible ones."""
    assert isinstance(sink, TwoPhaseCommitSink)
    distributed = Distributed(sink)
    distributed.commit(epoch, distributed.pre_commit(epoch))
