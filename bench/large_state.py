"""Going on with a lot of state: from the own query log, or from a checkpoint."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.file_reads import Reads, written_anew
from bench.victims import Victim, newest_batch
from holdfast.checkpoints.store import read_checkpoint
from holdfast.errors import QueryLogError
from holdfast.querylog.snapshots import newest_commit, snapshot
from holdfast.sources.pacing import decode_row

SCRIPT = Path(__file__).with_name("payloads.py")
JOB = "payloads"
BYTES_PER_KEY = 1000
RESUME, LINKED, COPIED = "own query log", "checkpoint, linked", "checkpoint, copied"
_ELSEWHERE = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a runner: seconds since then, and bytes."""

    first_batch: float
    built: float | None
    """When the working directory was there; ``None`` if it was there before."""
    read: int
    """From checkpoint storage."""
    copied: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What to restore."""

    path: Path
    cut: int
    size: int
    files: int

    @property
    def storage(self) -> Path:
        """The directory with everything that it shares."""
        return self.path.parent


@dataclass(frozen=True, slots=True)
class Found:
    """Medians are taken from these."""

    checkpoint: Checkpoint
    starts: dict[str, list[Start]]

    def median(self, way: str, what: str) -> float:
        figures: list[float] = [getattr(each, what) for each in self.starts[way]]
        return statistics.median(figures)


class Runner(Victim):
    """The job without a supervisor, in a working directory of its own."""

    def __init__(self, home: Path, keys: int, work: Path, *options: str) -> None:
        command = [sys.executable, "-m", "holdfast.cli", "run", str(SCRIPT), "--no-supervisor"]
        where = ["--quiet", "--set", f"holdfast.work.dir={work}"]
        super().__init__([*command, *where, *options, "--", str(home), str(keys)], home)
        self.attempt = work / JOB / "attempt-1"
        self.log = self.attempt / "regions" / JOB


def measure(home: Path, megabytes: int, rounds: int) -> Found:
    """Build the state once, then go on from it in every way, taking turns."""
    keys = megabytes * 1_000_000 // BYTES_PER_KEY
    home.mkdir()
    checkpoint = _build(home, keys)
    with _copy_elsewhere(checkpoint) as elsewhere:
        ways: dict[str, Callable[[], Start]] = {
            RESUME: partial(_resumed, home, keys, checkpoint),
            LINKED: partial(_restored, home, keys, checkpoint),
        }
        if elsewhere is not None:
            ways[COPIED] = partial(_restored, home, keys, elsewhere)
        starts: dict[str, list[Start]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, go_on in ways.items():
                os.sync()  # what the one before left to be written is not this one's burden
                taken = go_on()
                starts[way].append(taken)
                print(f"  {megabytes} MB, {way}: {taken}", flush=True)
    return Found(checkpoint, starts)


# Building


def _build(home: Path, keys: int) -> Checkpoint:
    runner = Runner(home, keys, home / "work")
    began = time.monotonic()
    runner.start()
    try:
        runner.wait_for(lambda: _is_loaded(runner.log, keys))
        runner.wait_for(lambda: _is_settled(runner.log))
        path = _take_checkpoint(runner)
    finally:
        runner.end()
    print(f"  {keys:,} keys built in {time.monotonic() - began:.0f} s", flush=True)
    metadata, _ = read_checkpoint(str(path))
    (region,) = metadata.regions
    return Checkpoint(path, region.cut, metadata.size, len(metadata.files))


def _is_loaded(log: Path, keys: int) -> bool:
    time.sleep(0.5)  # to look takes time from those who work
    try:
        found = newest_commit(log)
    except QueryLogError:  # it is just being made
        return False
    offsets = found.offsets.values() if found is not None else []
    return any(offset and decode_row(offset) == keys for offset in offsets)


def _is_settled(log: Path) -> bool:
    """Whether nearly everything is in RocksDB's own files, as after a while of running."""
    time.sleep(0.5)
    try:
        files = snapshot(log, newest_batch(log)).files
    except QueryLogError:  # Spark has just cleaned up
        return False
    changes = sum(file.size for file in files if file.path.endswith(".changelog"))
    return changes < 0.01 * sum(file.size for file in files)


def _take_checkpoint(runner: Victim) -> Path:
    command = [sys.executable, "-m", "holdfast.cli", "checkpoint", JOB, "--json"]
    done = subprocess.run(command, env=runner.environ, capture_output=True, text=True, check=True)
    return Path(json.loads(done.stdout)["path"])


@contextmanager
def _copy_elsewhere(checkpoint: Checkpoint) -> Iterator[Checkpoint | None]:
    """The checkpoint on another file system, from which nothing can be linked, if there is one."""
    if not _has_room(_ELSEWHERE, checkpoint):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=_ELSEWHERE) as folder:
        storage = Path(folder) / checkpoint.storage.name
        shutil.copytree(checkpoint.storage, storage)
        path = storage / checkpoint.path.name
        yield Checkpoint(path, checkpoint.cut, checkpoint.size, checkpoint.files)


def _has_room(place: Path, checkpoint: Checkpoint) -> bool:
    if not place.is_dir() or place.stat().st_dev == checkpoint.path.stat().st_dev:
        return False
    return shutil.disk_usage(place).free > 2 * checkpoint.size


# Going on


def _resumed(home: Path, keys: int, checkpoint: Checkpoint) -> Start:
    runner = Runner(home, keys, home / "work")
    before, reads = newest_batch(runner.log), Reads(checkpoint.storage)
    began = time.monotonic()
    runner.start()
    try:
        runner.wait_for(lambda: newest_batch(runner.log) > before)
        return Start(time.monotonic() - began, None, reads.size(), 0)
    finally:
        runner.end()


def _restored(home: Path, keys: int, checkpoint: Checkpoint) -> Start:
    fresh = home / "fresh"
    runner = Runner(home, keys, fresh / "work", "--from", str(checkpoint.path))
    reads = Reads(checkpoint.storage)
    began = time.monotonic()
    runner.start()
    try:
        runner.wait_for(runner.attempt.exists)
        built = time.monotonic() - began
        # Before Spark adds files, or reads those that are linked.
        copied, read = written_anew(runner.attempt, checkpoint.storage), reads.size()
        runner.wait_for(lambda: newest_batch(runner.log) > checkpoint.cut)
        return Start(time.monotonic() - began, built, read, copied)
    finally:
        runner.end()
        shutil.rmtree(fresh)
