"""What an idle job costs, and what a second region adds to the latency."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import holdfast as hf
from bench.measure import cpu_seconds
from bench.running import plain_session, running, wait_for

IDLE_SECONDS = 20.0


@dataclass(frozen=True)
class Idle:
    """Per minute."""

    cpu_seconds: float
    files: float


def idle_job(home: Path, interval: str | None) -> Idle:
    """Two regions that have read everything there is."""
    job = hf.Job("idle")
    rows = hf.sources.generator(rows_per_second=0.001, rows_per_batch=1)

    @job.region("first", reads=job.source("rows", rows))
    def first(rows):  # type: ignore[no-untyped-def]
        return rows

    @job.region("second", reads=first, output_mode="update")
    def second(rows):  # type: ignore[no-untyped-def]
        return rows.groupBy("value").count()

    job.sink("out", second, hf.sinks.files(home / "out"))
    settings: dict[str, object] = {"parallelism.default": 2}
    if interval:
        settings["execution.checkpointing.interval"] = interval
    with running(job, home, settings) as run:
        wait_for(lambda: run.gates.last_batch("second") >= 0, run)  # the first batch is empty
        return _measure(home)


def idle_plain(spark: SparkSession, home: Path) -> Idle:
    """Two plain queries, chained by files, that have read everything there is."""
    session = plain_session(spark, {"spark.sql.shuffle.partitions": "2"})
    (home / "in").mkdir(parents=True)
    (home / "between").mkdir()
    first = (
        session.readStream.schema("value long")
        .parquet(str(home / "in"))
        .writeStream.format("parquet")
        .option("path", str(home / "between"))
        .option("checkpointLocation", str(home / "log-1"))
        .start()
    )
    second = (
        session.readStream.schema("value long")
        .parquet(str(home / "between"))
        .groupBy("value")
        .count()
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(home / "log-2"))
        .start()
    )
    try:
        return _measure(home)
    finally:
        first.stop()
        second.stop()


def _measure(home: Path) -> Idle:
    _wait(5.0)  # what starting has left to do
    began, cpu, marker = time.time(), cpu_seconds(), time.time()
    _wait(IDLE_SECONDS)
    minutes = (time.time() - began) / 60
    files = sum(1 for p in home.rglob("*") if p.is_file() and p.stat().st_mtime >= marker)
    return Idle((cpu_seconds() - cpu) / minutes, files / minutes)


def _wait(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.5)


def latency(home: Path, regions: int) -> float:
    """Median seconds from a row's first batch to the sink."""
    job = hf.Job("latency")
    seen: list[float] = []
    rows = hf.sources.generator(rows_per_second=20, rows_per_batch=1_000)
    stamped = {"made": "unix_millis(current_timestamp())"}

    @job.region("first", reads=job.source("rows", rows))
    def first(rows):  # type: ignore[no-untyped-def]
        return rows.select(sf.expr(stamped["made"]).alias("made"))

    last = first
    if regions == 2:

        @job.region("second", reads=first)
        def last(rows):  # type: ignore[no-untyped-def]
            return rows

    def look(frame, _):  # type: ignore[no-untyped-def]
        newest = frame.agg(sf.max("made")).collect()[0][0]
        if newest is not None:
            seen.append(time.time() - newest / 1000)

    job.sink("look", last, hf.sinks.foreach_batch(look))
    with running(job, home, {}) as run:
        wait_for(lambda: len(seen) >= 30, run)
    return statistics.median(seen[10:])
