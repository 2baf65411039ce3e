"""How long checkpoints take: against the size of the state, and against the backlog."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import functions as sf

import holdfast as hf
from bench.running import running, wait_for
from holdfast.runtime.running import RunningJob

CHANGED_KEYS = 10_000
SAMPLES = 7


@dataclass(frozen=True)
class Sample:
    """Medians over several checkpoints."""

    seconds: float
    written: float
    state: float


def by_state_size(home: Path, keys: int) -> Sample:
    """Incremental checkpoints of ``keys`` keys, of which the same number change in between."""
    job = hf.Job("state")
    columns = {"k": "value", "v": "value"}
    load = hf.sources.generator(rows=keys, rows_per_batch=keys, columns=columns)
    columns = {"k": f"value % {CHANGED_KEYS}", "v": "value"}
    change = hf.sources.generator(
        rows_per_second=CHANGED_KEYS, rows_per_batch=CHANGED_KEYS, columns=columns
    )
    sources = [job.source("load", load), job.source("change", change)]

    @job.region("sums", reads=sources, output_mode="update")
    def sums(load, change):  # type: ignore[no-untyped-def]
        return load.unionByName(change).groupBy("k").agg(sf.sum("v").alias("s"))

    job.sink(
        "none",
        sums,
        hf.sinks.foreach_batch(lambda rows, _: rows.write.format("noop").mode("append").save()),
    )
    settings = {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "parallelism.default": 2,
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "5",
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    }
    with running(job, home, settings) as run:
        region = run.regions["sums"]
        wait_for(lambda: region.figures.rows >= keys, run)
        _after_batches(run, "sums", 8)  # the first snapshot of everything is on its way
        taken = []
        for number in range(SAMPLES + 2):
            _after_batches(run, "sums", 2)
            figures = run.history.of(run.checkpoint().result())
            if number >= 2:  # the first ones carry everything
                taken.append(figures)
    return Sample(
        statistics.median(f.duration or 0.0 for f in taken),
        statistics.median(f.checkpointed_size for f in taken),
        statistics.median(f.state_size for f in taken),
    )


def _after_batches(run: RunningJob, region: str, batches: int) -> None:
    upto = run.gates.last_batch(region) + batches
    wait_for(lambda: run.gates.last_batch(region) >= upto, run)


def by_backlog(home: Path, segments: int, unaligned: bool) -> float:
    """Seconds of a checkpoint that finds so many segments unread; each takes half a second."""
    job = hf.Job("backlog")
    go = threading.Event()
    rows = hf.sources.generator(rows=10_000 * (segments + 1), rows_per_batch=10_000)

    @job.region("made", reads=job.source("rows", rows))
    def made(rows):  # type: ignore[no-untyped-def]
        return rows

    @job.region("read", reads=made)
    def read(made):  # type: ignore[no-untyped-def]
        return made

    def slowly(_, batch):  # type: ignore[no-untyped-def]
        if batch > 0:
            go.wait()
            time.sleep(0.5)

    job.sink("slow", read, hf.sinks.foreach_batch(slowly))
    settings = {
        "holdfast.channel.max-batch-bytes": "1b",
        "execution.checkpointing.unaligned.enabled": str(unaligned),
    }
    with running(job, home, settings) as run:
        wait_for(lambda: run.gates.last_batch("made") >= segments, run)
        wait_for(lambda: run.gates.last_batch("read") >= 0, run)
        future = run.checkpoint()
        go.set()
        seconds = run.history.of(future.result()).duration
    assert seconds is not None
    return seconds
