"""Rows into files: a job with the files sink, exactly once, against Spark's own file sink."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import holdfast as hf
from bench.running import RowsRead, plain_session, running, wait_for
from holdfast.runtime.running import State
from holdfast.sinks.files.sink import committed_epochs
from holdfast.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = int(os.environ.get("BENCH_FILE_ROWS", "4000000"))
ROUNDS = 3
BATCHES = 10
INTERVAL = "2s"
FORMATS = ("parquet", "json")


@dataclass(frozen=True, slots=True)
class Speeds:
    """Rows per second, a median, from the start of the query until the last row is visible."""

    rows: int
    rounds: int
    spark: dict[str, float]
    holdfast: dict[str, float]

    def ratio(self, format: str) -> float:
        """The job against Spark's file sink."""
        return self.holdfast[format] / self.spark[format]


def measure(rows: int = ROWS, rounds: int = ROUNDS) -> Speeds:
    """In turn, each several times, into a new directory each time."""
    settings = {"spark.master": "local[2]", "spark.driver.memory": "2g"}
    spark = local_session("holdfast-bench", **{**settings, "spark.scheduler.mode": "FAIR"})
    ways: dict[str, tuple[Callable[..., float], str]] = {}
    for form in FORMATS:
        ways[f"spark-{form}"], ways[f"holdfast-{form}"] = (plain, form), (job, form)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        for number in range(rounds + 1):
            for name, (way, form) in ways.items():
                home = Path(scratch) / f"{name}-{number}"
                os.sync()  # what the one before left to be written is not this one's burden
                seconds = way(spark, home, form, rows)
                if number:  # the first round only warms up
                    taken[name].append(seconds)
                shutil.rmtree(home)
    medians = {name: rows / statistics.median(seconds) for name, seconds in taken.items()}
    of_spark, of_job = (
        {f: medians[f"{who}-{f}"] for f in FORMATS} for who in ("spark", "holdfast")
    )
    return Speeds(rows, rounds, of_spark, of_job)


def source(rows: int) -> hf.sources.Generator:
    columns = {
        "n": "value",
        "customer": "concat('customer ', value % 1000)",
        "amount": "value / 7",
        "at": "timestamp_micros(1700000000000000 + value * 1000)",
    }
    return hf.sources.generator(rows=rows, rows_per_batch=rows // BATCHES, columns=columns)


def plain(spark: SparkSession, home: Path, form: str, rows: int) -> float:
    """Spark's file sink: exactly once for readers that know its log, at every batch."""
    session = plain_session(spark, {})
    read = RowsRead(session)
    began = time.perf_counter()
    query = (
        source(rows)(session)
        .writeStream.format(form)
        .option("path", str(home / "out"))
        .option("checkpointLocation", str(home / "log"))
        .start()
    )
    wait_for(lambda: read.of(query) >= rows)
    taken = time.perf_counter() - began
    query.stop()
    read.close()
    return taken


def job(_: SparkSession, home: Path, form: str, rows: int) -> float:
    """The same as a job, until its last checkpoint has made the last row visible."""
    declared = hf.Job("files")
    region = declared.region("rows", reads=declared.source("numbers", source(rows)))(lambda r: r)
    declared.sink("out", region, hf.sinks.files(home / "out", form))

    def all_visible() -> bool:
        return sum(epoch.rows for epoch in committed_epochs(home / "out")) >= rows

    with running(declared, home, {"execution.checkpointing.interval": INTERVAL}) as run:
        wait_for(lambda: run.regions["rows"].figures.rows >= rows, run)
        wait_for(all_visible, run)
        return time.time() - run.entered[State.RUNNING]


if __name__ == "__main__":
    print(measure())
