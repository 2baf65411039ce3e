"""The tables about jobs: overhead, checkpoints, idleness, latency.

``BENCH_JOB_ROWS`` sets how many rows go through those whose throughput is measured.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from bench import idling, snapshots, throughput
from bench.throughput import Taken
from holdfast.spark.session import local_session

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
USUAL = "5s"
INTERVALS = ("1s", "2s", USUAL, "10s")
BACKLOGS = (0, 1, 5, 10)
SIZES = (10_000, 100_000, 1_000_000)
_KINDS = ("plain", "tuned", "job")


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
            _throughput(spark, home / "a"),
            _by_state_size(home / "c"),
            _by_backlog(home / "d"),
            _idle(spark, home / "e"),
            _latency(home / "f"),
        ]
    spark.stop()
    return "\n".join(parts)


def _throughput(spark: SparkSession, home: Path) -> str:
    """Against plain Spark and against the interval: in turn, so that noise hits all alike."""
    print("measuring throughput …", flush=True)
    taken = throughput.in_turn(
        spark,
        home,
        {
            "plain-1": throughput.one_region_plain,
            "tuned-1": partial(throughput.one_region_plain, settings=throughput.TUNED),
            "job-1": partial(throughput.one_region_job, interval=USUAL),
            "plain-2": throughput.two_regions_plain,
            "tuned-2": partial(throughput.two_regions_plain, settings=throughput.TUNED),
            "job-2": partial(throughput.two_regions_job, interval=USUAL),
            "none": partial(throughput.one_region_job, interval=None),
            **{i: partial(throughput.one_region_job, interval=i) for i in INTERVALS if i != USUAL},
        },
        ROUNDS,
    )
    by_interval = {i: taken["job-1" if i == USUAL else i] for i in ("none", *INTERVALS)}
    return "\n".join([*_against_plain(taken), "", *_by_interval(by_interval), ""])


def _against_plain(taken: dict[str, Taken]) -> list[str]:
    millions = throughput.ROWS / 1e6
    rows = [
        ("one region, keyed count to Parquet files", "1", 0.97),
        ("two regions over a channel, against file sink and file source", "2", 1.0),
    ]
    lines = [
        f"{millions:.0f} M rows in batches of {throughput.PER_BATCH / 1e6:.1f} M, until the last "
        f"one is visible; checkpoints every {USUAL}, and one at the end. Median of {ROUNDS} "
        "rounds, taking turns.",
        "*Tuned* is plain Spark with the one setting that jobs have by themselves: it renames the "
        "files of its",
        "query log without starting two programs for each, as Spark does where Hadoop's native "
        "library is missing.",
        "",
        "| what | plain Spark | tuned | Holdfast | throughput, as a multiple | aim "
        "| as a multiple of tuned |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for what, number, aim in rows:
        plain, tuned, job = (taken[f"{kind}-{number}"].seconds for kind in _KINDS)
        verdict = "" if plain / job >= aim else " (short of it)"
        times = f"{plain:.2f} s | {tuned:.2f} s | {job:.2f} s"
        ratios = f"{plain / job:.2f} | ≥ {aim:g}{verdict} | {tuned / job:.2f}"
        lines.append(f"| {what} | {times} | {ratios} |")
    return lines


def _by_interval(taken: dict[str, Taken]) -> list[str]:
    none = taken["none"]
    return [
        "The one-region job against the checkpoint interval, in the same rounds. Without one, only",
        "the checkpoint at the end is taken. Time on the processor is that of Python and the JVM.",
        "",
        "| interval | run time | against none | on the processor | against none |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {name} | {each.seconds:.2f} s | {each.seconds / none.seconds:.2f} "
            f"| {each.cpu:.2f} s | {each.cpu / none.cpu:.2f} |"
            for name, each in taken.items()
        ),
    ]


def _by_state_size(home: Path) -> str:
    print("measuring checkpoints against state …", flush=True)
    lines = [
        f"Incremental checkpoints (RocksDB), {snapshots.CHANGED_KEYS:,} keys changing per batch; "
        f"medians of {ROUNDS} runs with {snapshots.SAMPLES} checkpoints each:",
        "",
        "| keys | state | duration | written |",
        "|---:|---:|---:|---:|",
    ]
    for keys in SIZES:
        sample = snapshots.by_state_size(home / str(keys), keys, ROUNDS)
        lines.append(
            f"| {keys:,} | {sample.state / 1e6:.2f} MB | {sample.seconds * 1000:.0f} ms "
            f"| {sample.written / 1e6:.2f} MB |"
        )
    return "\n".join([*lines, ""])


def _by_backlog(home: Path) -> str:
    print("measuring checkpoints against backlog …", flush=True)
    lines = [
        "Duration of a checkpoint against what its slow consumer has not read "
        f"({snapshots.SEGMENT_ROWS:,} rows and {snapshots.PER_SEGMENT:g} s per segment); "
        f"medians of {ROUNDS} runs:",
        "",
        "| unread segments | rows | bytes | aligned | unaligned |",
        "|---:|---:|---:|---:|---:|",
    ]
    for backlog in BACKLOGS:
        aligned, unaligned = (
            snapshots.by_backlog(home / f"{backlog}-{mode}", backlog, mode, ROUNDS)
            for mode in (False, True)
        )
        lines.append(
            f"| {backlog} | {backlog * snapshots.SEGMENT_ROWS:,} | {unaligned.unread / 1e6:.1f} MB "
            f"| {aligned.seconds:.2f} s | {unaligned.seconds:.2f} s |"
        )
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
