"""The tables about jobs: overhead, checkpoints, idleness, latency."""

from __future__ import annotations

import os
import statistics
import tempfile
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from bench import idling, snapshots, throughput
from holdfast.spark.session import local_session

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
INTERVALS = ("1s", "2s", "5s", "10s")
BACKLOGS = (0, 1, 5, 10)
SIZES = (10_000, 100_000, 1_000_000)


def measure() -> str:
    """All tables."""
    spark = local_session(
        "holdfast-bench",
        **{
            "spark.master": "local[2]",
            "spark.driver.memory": "3g",
            "spark.scheduler.mode": "FAIR",
            "spark.driver.extraJavaOptions": "-Xss8m",
        },
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        home = Path(scratch)
        parts = [
            "## Jobs",
            "",
            _against_plain(spark, home / "a"),
            _by_interval(spark, home / "b"),
            _by_state_size(home / "c"),
            _by_backlog(home / "d"),
            _idle(spark, home / "e"),
            _latency(home / "f"),
        ]
    spark.stop()
    return "\n".join(parts)


def _against_plain(spark: SparkSession, home: Path) -> str:
    print("measuring throughput …", flush=True)
    taken = throughput.in_turn(
        spark,
        home,
        {
            "plain-1": throughput.one_region_plain,
            "job-1": throughput.one_region_job,
            "plain-2": throughput.two_regions_plain,
            "job-2": throughput.two_regions_job,
        },
        ROUNDS,
    )
    millions = throughput.ROWS / 1e6
    rows = [
        ("one region, keyed count to Parquet files", "plain-1", "job-1", 0.97),
        ("two regions over a channel, against file sink and file source", "plain-2", "job-2", 1.0),
    ]
    lines = [
        f"{millions:.0f} M rows in batches of {throughput.PER_BATCH / 1e6:.1f} M; checkpoints "
        f"every 5 s. Median of {ROUNDS} rounds, taking turns.",
        "",
        "| what | plain Spark | Holdfast | throughput, as a multiple | aim |",
        "|---|---:|---:|---:|---:|",
    ]
    for what, plain, job, aim in rows:
        ratio = taken[plain] / taken[job]
        verdict = "" if ratio >= aim else " (short of it)"
        times = f"{taken[plain]:.2f} s | {taken[job]:.2f} s"
        lines.append(f"| {what} | {times} | {ratio:.2f} | ≥ {aim:g}{verdict} |")
    return "\n".join([*lines, ""])


def _by_interval(spark: SparkSession, home: Path) -> str:
    print("measuring checkpoint intervals …", flush=True)
    candidates: dict[str, object] = {"none": partial(throughput.one_region_job, interval=None)}
    for interval in INTERVALS:
        candidates[interval] = partial(throughput.one_region_job, interval=interval)
    taken = throughput.in_turn(spark, home, candidates, ROUNDS)
    lines = [
        "Run time of the one-region job against the checkpoint interval:",
        "",
        "| interval | run time | against none |",
        "|---|---:|---:|",
    ]
    lines += [f"| {n} | {t:.2f} s | {t / taken['none']:.2f} |" for n, t in taken.items()]
    return "\n".join([*lines, ""])


def _by_state_size(home: Path) -> str:
    print("measuring checkpoints against state …", flush=True)
    lines = [
        f"Incremental checkpoints (RocksDB), {snapshots.CHANGED_KEYS:,} keys changing per batch:",
        "",
        "| keys | state | duration | written |",
        "|---:|---:|---:|---:|",
    ]
    for keys in SIZES:
        sample = snapshots.by_state_size(home / str(keys), keys)
        lines.append(
            f"| {keys:,} | {sample.state / 1e6:.2f} MB | {sample.seconds * 1000:.0f} ms "
            f"| {sample.written / 1e6:.2f} MB |"
        )
    return "\n".join([*lines, ""])


def _by_backlog(home: Path) -> str:
    print("measuring checkpoints against backlog …", flush=True)
    lines = [
        "Duration of a checkpoint against what its slow consumer has not read (0.5 s per segment):",
        "",
        "| backlog | aligned | unaligned |",
        "|---:|---:|---:|",
    ]
    for backlog in BACKLOGS:
        aligned, unaligned = (
            statistics.median(
                snapshots.by_backlog(home / f"{backlog}-{mode}-{number}", backlog, mode)
                for number in range(ROUNDS)
            )
            for mode in (False, True)
        )
        lines.append(f"| {backlog} | {aligned:.2f} s | {unaligned:.2f} s |")
    return "\n".join([*lines, ""])


def _idle(spark: SparkSession, home: Path) -> str:
    print("measuring idleness …", flush=True)
    rows = [
        ("two plain queries, chained by files", idling.idle_plain(spark, home / "plain")),
        ("a job of two regions, no checkpoints", idling.idle_job(home / "none", None)),
        ("a job of two regions, checkpoints every 10 s", idling.idle_job(home / "10s", "10s")),
    ]
    lines = [
        "What idleness costs, per minute:",
        "",
        "| what | CPU seconds | files written |",
        "|---|---:|---:|",
    ]
    lines += [f"| {what} | {idle.cpu_seconds:.1f} | {idle.files:.0f} |" for what, idle in rows]
    return "\n".join([*lines, ""])


def _latency(home: Path) -> str:
    print("measuring latency …", flush=True)
    one, two = (idling.latency(home / str(n), n) for n in (1, 2))
    return (
        "Latency from a row's first batch to the sink (median): "
        f"{one * 1000:.0f} ms with one region, {two * 1000:.0f} ms with two: "
        f"the second region adds {(two - one) * 1000:.0f} ms.\n"
    )
