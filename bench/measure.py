"""Times things in turn, several times, and compares the medians."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.spark.jvm_process import jvm_pid

TICKS = os.sysconf("SC_CLK_TCK")
Work = Callable[[Path], object]
"""Makes a directory that does not exist yet."""


def in_turn(candidates: Mapping[str, Work], home: Path, rounds: int) -> dict[str, float]:
    """Median seconds of each. They take turns, so that a noisy minute hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, work in candidates.items():
            target = home / f"{name.replace(' ', '-').replace('/', '-')}-{number}"
            # What the one before left to be written must not be this one's burden.
            os.sync()
            began = time.perf_counter()
            work(target)
            if number:  # the first round only warms up
                times[name].append(time.perf_counter() - began)
            shutil.rmtree(target, ignore_errors=True)
    return {name: statistics.median(taken) for name, taken in times.items()}


def cp(source: Path, flush: bool) -> Work:
    """``cp -r``, with everything on disk at the end if ``flush``."""

    def work(target: Path) -> None:
        subprocess.run(["cp", "-r", str(source), str(target)], check=True)
        if flush:
            for path in target.rglob("*"):
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)

    return work


def cpu_seconds() -> float:
    """Seconds of processor that this process and its JVM have used."""
    used = 0
    for pid in (os.getpid(), jvm_pid()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / TICKS


def size_of(directory: Path) -> tuple[int, int]:
    """Files and bytes below a directory."""
    sizes = [p.stat().st_size for p in directory.rglob("*") if p.is_file()]
    return len(sizes), sum(sizes)
