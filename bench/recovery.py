"""The tables about recovery: how soon a killed job is back, also with a lot of state."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from bench import arrivals, kills, large_state
from bench.kills import BY_HAND, SUPERVISED, Recovery

KILLS = int(os.environ.get("BENCH_ROUNDS", "5"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SIZES = (100, 1000)


def measure() -> str:
    """Both tables."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        home = Path(scratch)
        return "\n".join(["## Recovery", "", _after_kills(home), _by_state_size(home)])


def _after_kills(home: Path) -> str:
    print("measuring recovery from kills …", flush=True)
    found = kills.measure(home, KILLS)
    delay = statistics.median(each.waited for each in found[SUPERVISED])
    lines = [
        f"A keyed count to Parquet files; a file of {arrivals.ROWS:,} rows arrives every "
        f"{arrivals.PACE:g} s. Medians of {KILLS} kills each, taking turns, with the",
        "least and the most. Plain Spark is started again by hand the moment that it is dead. The",
        f"supervisor waits {delay:.2f} s before, as Flink's default restart strategy says.",
        "",
        "| from `kill -9` to | plain Spark, by hand | Holdfast | as a multiple "
        "| as a multiple, without the wait |",
        "|---|---:|---:|---:|---:|",
        _kill_row("the first new committed batch", "first_batch", found),
        _kill_row("all files that are there being committed", "caught_up", found),
    ]
    return "\n".join([*lines, ""])


def _kill_row(what: str, name: str, found: dict[str, list[Recovery]]) -> str:
    plain, ours = ([getattr(r, name) for r in found[kind]] for kind in (BY_HAND, SUPERVISED))
    working = statistics.median(getattr(r, name) - r.waited for r in found[SUPERVISED])
    usual = statistics.median(plain)
    ratios = f"{statistics.median(ours) / usual:.2f} | {working / usual:.2f}"
    return f"| {what} | {_spread(plain)} | {_spread(ours)} | {ratios} |"


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f})"


def _by_state_size(home: Path) -> str:
    print("measuring recovery of large state …", flush=True)
    rows = []
    for megabytes in SIZES:
        found = large_state.measure(home / f"{megabytes}-mb", megabytes, ROUNDS)
        rows += [_state_row(found, way) for way in found.starts]
    lines = [
        "From the start of a runner to its first new committed batch, by the size of its state",
        f"(RocksDB, incremental checkpoints). Medians of {ROUNDS} starts each, taking turns; all "
        "files are in the system's cache.",
        "",
        "| state | goes on from | first batch | against own query log | new attempt built after "
        "| read from checkpoint storage | copied |",
        "|---:|---|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "Linked: checkpoint storage and working directory are on one file system. Copied: they are",
        "not (here the checkpoint is in memory, so that only the writing is slow).",
    ]
    return "\n".join([*lines, ""])


def _state_row(found: large_state.Found, way: str) -> str:
    first = found.median(way, "first_batch")
    ratio = first / found.median(large_state.RESUME, "first_batch")
    built = "" if way == large_state.RESUME else f"{found.median(way, 'built'):.1f} s"
    read, copied = (found.median(way, what) / 1e6 for what in ("read", "copied"))
    return (
        f"| {found.checkpoint.size / 1e6:,.0f} MB | {way} | {first:.1f} s | {ratio:.2f} | {built} "
        f"| {read:,.2f} MB | {copied:,.2f} MB |"
    )
