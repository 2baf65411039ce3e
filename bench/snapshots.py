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
SAMPLES = 3
PER_SEGMENT = 0.5
"""Seconds that the slow reader takes."""
SEGMENT_ROWS = 100_000
PAYLOAD = "unhex(sha2(concat('row ', value), 512))"
"""64 bytes a row that do not compress."""


@dataclass(frozen=True)
class Sample:
    """Medians over several checkpoints."""

    seconds: float
    written: float
    state: float


def by_state_size(home: Path, keys: int, runs: int) -> Sample:
    """Medians over several runs."""
    found = [_by_state_size(home / str(number), keys) for number in range(runs)]
    return Sample(
        statistics.median(sample.seconds for sample in found),
        statistics.median(sample.written for sample in found),
        statistics.median(sample.state for sample in found),
    )


def _by_state_size(home: Path, keys: int) -> Sample:
    """Incremental checkpoints of ``keys`` keys, of which the same number change in between."""
    job = hf.Job("state")
    columns = {"k": "value", "v": "value"}
    load = hf.sources.generator(rows=keys, rows_per_batch=keys, columns=columns)
    columns = {"k": f"value % {CHANGED_KEYS}", "v": "value"}
    change = hf.sources.generator(
        rows_per_second=2 * CHANGED_KEYS, rows_per_batch=CHANGED_KEYS, columns=columns
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


@dataclass(frozen=True)
class Behind:
    """A checkpoint that found its reader behind."""

    seconds: float
    unread: int
    """Bytes of the segments that the reader had not read."""


def by_backlog(home: Path, segments: int, unaligned: bool, runs: int) -> Behind:
    """Medians over several runs."""
    found = [_by_backlog(home / str(number), segments, unaligned) for number in range(runs)]
    return Behind(
        statistics.median(sample.seconds for sample in found),
        round(statistics.median(sample.unread for sample in found)),
    )


def _by_backlog(home: Path, segments: int, unaligned: bool) -> Behind:
    """A checkpoint that finds so many segments unread: the reader is held when it has read one."""
    job = hf.Job("backlog")
    has_read, go = threading.Event(), threading.Event()
    rows = hf.sources.generator(
        rows=SEGMENT_ROWS * (segments + 1),
        rows_per_batch=SEGMENT_ROWS,
        columns={"n": "value", "payload": PAYLOAD},
    )

    @job.region("made", reads=job.source("rows", rows))
    def made(rows):  # type: ignore[no-untyped-def]
        return rows

    @job.region("read", reads=made)
    def read(made):  # type: ignore[no-untyped-def]
        return made

    def slowly(rows, _):  # type: ignore[no-untyped-def]
        if has_read.is_set():
            go.wait()
            time.sleep(PER_SEGMENT)
        elif not rows.isEmpty():  # the first batch may be
            has_read.set()

    job.sink("slow", read, hf.sinks.foreach_batch(slowly))
    settings = {
        "holdfast.channel.max-batch-bytes": "1b",
        "execution.checkpointing.unaligned.enabled": str(unaligned),
    }
    with running(job, home, settings) as run:
        wait_for(lambda: run.gates.last_batch("made") >= segments, run)
        wait_for(lambda: has_read.is_set() and run.gates.position("read", "made") == 1, run)
        unread = run.gates.channels["made"].unread({"read": 1}, segments + 1)
        future = run.checkpoint()
        go.set()
        seconds = run.history.of(future.result()).duration
    assert seconds is not None
    return Behind(seconds, unread)
