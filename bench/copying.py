"""Copies of query logs against ``cp -r``."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

from bench.measure import cp, in_turn, size_of
from bench.state import build
from holdfast import querylog
from holdfast.spark.session import local_session

MEGABYTES = int(os.environ.get("BENCH_MB", "1000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))

COPY, LINK, CP, CP_FLUSHED = "holdfast copy", "holdfast copy --link", "cp -r", "cp -r, flushed"
COPY_ALL, CP_ALL = f"{COPY} whole log", f"{CP} whole log"
VERIFY, INSPECT = "holdfast verify", "holdfast inspect"
COMPARISONS = (
    ("copy against `cp -r` of the same files", COPY, CP, 0.9),
    ("copy against `cp -r` with everything flushed to disk", COPY, CP_FLUSHED, 0.9),
    ("copy of what the batch needs against `cp -r` of all", COPY_ALL, CP_ALL, 0.9),
    ("`copy --link` against copy", LINK, COPY, 20.0),
)


def measure() -> str:
    """Build the state, measure, return the tables."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        home = Path(scratch)
        print(f"building {MEGABYTES} MB of RocksDB state with Spark …", flush=True)
        spark = local_session("holdfast-bench", **{"spark.driver.memory": "4g"})
        log = build(spark, MEGABYTES, home)
        spark.stop()
        minimal = home / "minimal"
        querylog.copy(log, minimal)
        print("measuring copies …", flush=True)
        return report(home, log, minimal)


def report(home: Path, log: Path, minimal: Path) -> str:
    """The table for people."""
    files, size = size_of(minimal)
    all_files, all_size = size_of(log)
    taken = in_turn(
        {
            CP: cp(minimal, flush=False),
            CP_FLUSHED: cp(minimal, flush=True),
            COPY: partial(querylog.copy, minimal),
            LINK: partial(querylog.copy, minimal, link=True),
            CP_ALL: cp(log, flush=False),
            COPY_ALL: partial(querylog.copy, log),
            VERIFY: lambda _: querylog.verify(minimal),
            INSPECT: lambda _: querylog.inspect(minimal),
        },
        home,
        ROUNDS,
    )
    return "\n".join(
        [
            "## Copies of query logs",
            "",
            f"Median of {ROUNDS} rounds, taking turns.",
            f"State: {size / 1e6:,.0f} MB in {files} files at the newest batch; "
            f"the whole query log has {all_size / 1e6:,.0f} MB in {all_files} files.",
            "",
            "| what | this | that | speed of this, as a multiple | aim |",
            "|---|---:|---:|---:|---:|",
            *(_row(taken, *comparison) for comparison in COMPARISONS),
            "",
            f"`verify`, which reads and checks every byte: {taken[VERIFY]:.2f} s, "
            f"{size / 1e6 / taken[VERIFY]:,.0f} MB/s. `inspect`: {taken[INSPECT]:.3f} s.",
            "",
            "A copy by Holdfast has reached the disk when it appears; one by `cp -r` has not.",
            "",
        ]
    )


def _row(taken: dict[str, float], what: str, this: str, that: str, aim: float) -> str:
    ratio = taken[that] / taken[this]
    verdict = "" if ratio >= aim else " (short of it)"
    times = f"{taken[this]:.3f} s | {taken[that]:.3f} s"
    return f"| {what} | {times} | {ratio:.2f} | ≥ {aim:g}{verdict} |"
