"""Throughput of jobs against plain Spark, side by side, and against the checkpoint interval.

The clock runs from the start of the queries until the last row can be read where it was to go: with
plain Spark when the last batch has written its files, with a job when its last checkpoint has let
them appear.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import holdfast as hf
from bench.measure import cpu_seconds
from bench.running import RowsRead, parquet_writer, plain_session, running, wait_for
from holdfast import clock
from holdfast.runtime.running import State
from holdfast.spark.job_session import QUERY_LOG_ON_LOCAL_DISK

ROWS = int(os.environ.get("BENCH_JOB_ROWS", "16000000"))
PER_BATCH = 800_000
KEYS = 1_000
PARTITIONS = 2
STATE = {"spark.sql.shuffle.partitions": str(PARTITIONS)}
TUNED = {**STATE, **QUERY_LOG_ON_LOCAL_DISK}
"""Jobs set this by themselves; plain Spark may be told."""


def source(rows: int = ROWS) -> hf.sources.Generator:
    columns = {"k": f"value % {KEYS}", "n": "value"}
    return hf.sources.generator(rows=rows, rows_per_batch=PER_BATCH, columns=columns)


def one_region_plain(spark: SparkSession, home: Path, settings: Mapping[str, str] = STATE) -> float:
    """A keyed count, its updates appended as Parquet files."""
    session = plain_session(spark, settings)
    counts = source()(session).groupBy("k").agg(sf.count("*").alias("c"), sf.sum("n").alias("s"))
    read = RowsRead(session)
    began = time.perf_counter()
    query = (
        counts.writeStream.outputMode("update")
        .foreachBatch(parquet_writer(home / "out"))
        .option("checkpointLocation", str(home / "log"))
        .start()
    )
    wait_for(lambda: read.of(query) >= ROWS)
    taken = time.perf_counter() - began
    query.stop()
    read.close()
    return taken


def one_region_job(_: SparkSession, home: Path, interval: str | None = "5s") -> float:
    """The same as a job."""
    job = hf.Job("one")

    @job.region("count", reads=job.source("rows", source()), output_mode="update")
    def count(rows):  # type: ignore[no-untyped-def]
        return rows.groupBy("k").agg(sf.count("*").alias("c"), sf.sum("n").alias("s"))

    job.sink("out", count, hf.sinks.files(home / "out"))
    return _until_visible(job, home, "count", interval)


def two_regions_plain(
    spark: SparkSession, home: Path, settings: Mapping[str, str] = STATE
) -> float:
    """Two queries, chained by Spark's file sink and file source."""
    session = plain_session(spark, settings)
    between = home / "between"
    between.mkdir(parents=True)
    read = RowsRead(session)
    began = time.perf_counter()
    first = (
        source()(session)
        .where("n % 10 != 0")
        .writeStream.format("parquet")
        .option("path", str(between))
        .option("checkpointLocation", str(home / "log-1"))
        .start()
    )
    second = (
        session.readStream.schema("k long, n long")
        .parquet(str(between))
        .groupBy("k")
        .agg(sf.count("*").alias("c"), sf.sum("n").alias("s"))
        .writeStream.outputMode("update")
        .foreachBatch(parquet_writer(home / "out"))
        .option("checkpointLocation", str(home / "log-2"))
        .start()
    )
    wait_for(lambda: read.of(second) >= ROWS * 9 // 10)
    taken = time.perf_counter() - began
    first.stop()
    second.stop()
    read.close()
    return taken


def two_regions_job(_: SparkSession, home: Path, interval: str | None = "5s") -> float:
    """The same as a job of two regions."""
    job = hf.Job("two")

    @job.region("some", reads=job.source("rows", source()))
    def some(rows):  # type: ignore[no-untyped-def]
        return rows.where("n % 10 != 0")

    @job.region("count", reads=some, output_mode="update")
    def count(rows):  # type: ignore[no-untyped-def]
        return rows.groupBy("k").agg(sf.count("*").alias("c"), sf.sum("n").alias("s"))

    job.sink("out", count, hf.sinks.files(home / "out"))
    return _until_visible(job, home, "count", interval, ROWS * 9 // 10)


def _until_visible(
    job: hf.Job, home: Path, region: str, interval: str | None, rows: int = ROWS
) -> float:
    settings: dict[str, object] = {"parallelism.default": PARTITIONS}
    if interval is not None:
        settings["execution.checkpointing.interval"] = interval
    with running(job, home, settings) as run:
        wait_for(lambda: run.regions[region].figures.rows >= rows, run)
        waiting_for_the_sink = run.gates.channels[region].batches
        wait_for(lambda: not waiting_for_the_sink(), run)
        return clock.now() - run.entered[State.RUNNING]  # as with plain queries: from their start


@dataclass(frozen=True)
class Taken:
    """Medians over several rounds."""

    seconds: float
    cpu: float
    """Seconds of processor, of Python and the JVM, until all of it has ended."""


def in_turn(
    spark: SparkSession, home: Path, candidates: dict[str, Callable[..., float]], rounds: int
) -> dict[str, Taken]:
    """They take turns, in every other round backwards, and the first round only warms up.

    What comes first in a round would else always find the machine as the same other one left it.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    cpu: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name in list(candidates)[:: -1 if number % 2 else 1]:
            os.sync()  # what the one before left to be written is not this one's burden
            before = cpu_seconds()
            seconds = candidates[name](spark, home / f"{name}-{number}")
            if number:
                times[name].append(seconds)
                cpu[name].append(cpu_seconds() - before)
    return {
        name: Taken(statistics.median(times[name]), statistics.median(cpu[name]))
        for name in candidates
    }
