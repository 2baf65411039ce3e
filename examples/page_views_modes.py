"""The page-view job in three modes: crash behind a checkpoint, restore it, count again.

    python examples/page_views_modes.py [exactly-once] [at-least-once] [unaligned]

For each mode: run the job until a checkpoint is complete, kill it with ``kill -9``, start it from
that checkpoint, let it end, and compare its counts with a recount of the input.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from holdfast.checkpoints.metadata import CheckpointMetadata, decode

HERE = Path(__file__).parent
LIVE_ROWS, ARCHIVE_ROWS, PAGES = 8, 800, 5
MODES = {
    "exactly-once": ["execution.checkpointing.mode=exactly-once"],
    "at-least-once": ["execution.checkpointing.mode=at-least-once"],
    "unaligned": ["execution.checkpointing.unaligned.enabled=true"],
}


def main() -> None:
    """Tell the story of each mode that was asked for."""
    for mode in sys.argv[1:] or MODES:
        out = Path(tempfile.mkdtemp(prefix="page-views-"))
        try:
            tell(mode, out)
        finally:
            shutil.rmtree(out, ignore_errors=True)


def tell(mode: str, out: Path) -> None:
    """One mode: run, kill, restore, recount."""
    print(f"\n== {mode} ==")
    first = start(mode, out)
    checkpoint = wait_for_checkpoint(mode, out, first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    print(f"checkpoint {checkpoint.id} completed; killed the job with kill -9")
    describe(checkpoint)
    twice = rows_read_behind_the_barrier(out, checkpoint)
    place = out / "checkpoints" / checkpoint.job_id / f"chk-{checkpoint.id}"
    second = start(mode, out, "--from", str(place))
    if second.wait() != 0:
        raise SystemExit("the restored job failed")
    compare(mode, counted(out), twice)


def start(mode: str, out: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start ``holdfast run`` in a process group of its own; a supervisor would start it again."""
    settings = [word for setting in MODES[mode] for word in ("--set", setting)]
    command = [sys.executable, "-m", "holdfast.cli", "run", str(HERE / "page_views.py")]
    return subprocess.Popen(
        [*command, "--no-supervisor", "--quiet", *settings, *more, "--", str(out)],
        env={**os.environ, "HOLDFAST_HOME": str(out / "home")},
        start_new_session=True,
    )


def wait_for_checkpoint(
    mode: str, out: Path, process: subprocess.Popen[bytes]
) -> CheckpointMetadata:
    """The first checkpoint that shows what is special about the mode."""
    while process.poll() is None:
        for path in sorted((out / "checkpoints").glob("*/chk-*/_metadata")):
            checkpoint = decode(path.read_bytes(), str(path))
            if is_telling(mode, checkpoint):
                return checkpoint
        time.sleep(0.05)
    raise SystemExit("the job ended before it was killed")


def is_telling(mode: str, checkpoint: CheckpointMetadata) -> bool:
    """Aligned: some of each counted. Else: read behind a barrier, or overtaken by one."""
    inputs = checkpoint.region("pv").inputs
    if mode == "at-least-once":
        return any(found.position > found.barrier for found in inputs)
    if mode == "unaligned":
        return len(checkpoint.in_flight) > 2
    return all(found.barrier > 0 for found in inputs)


def describe(checkpoint: CheckpointMetadata) -> None:
    """How far pv had read each input, and where the barriers were."""
    for found in checkpoint.region("pv").inputs:
        print(
            f"  {found.uid:8} barrier behind segment {found.barrier - 1:3}, "
            f"read up to segment {found.position - 1:3}"
        )
    if checkpoint.in_flight:
        bytes_ = sum(segment.size for segment in checkpoint.in_flight)
        print(f"  {len(checkpoint.in_flight)} segments in flight ({bytes_} bytes) were kept")


def rows_read_behind_the_barrier(out: Path, checkpoint: CheckpointMetadata) -> dict[str, range]:
    """Rows that are in the state already and will come again: at least once."""
    found = {}
    for one in checkpoint.region("pv").inputs:
        log = next((out / "work").glob(f"*/attempt-{checkpoint.attempt}/regions/{one.uid}"))
        first, behind = (rows_read(log, batch - 1) for batch in (one.barrier, one.position))
        found[one.uid] = range(first, max(first, behind))
    return found


def rows_read(log: Path, batch: int) -> int:
    """How many rows of its source a region has read after a batch, by its query log."""
    if batch < 0:
        return 0
    return int(json.loads((log / "offsets" / str(batch)).read_text().splitlines()[-1])["row"])


def counted(out: Path) -> Counter[str]:
    """The newest count of each page: counts only grow."""
    counts: Counter[str] = Counter()
    for file in (out / "pv").glob("*.parquet"):
        for row in pq.read_table(file).to_pylist():
            counts[row["page"]] = max(counts[row["page"]], row["count"])
    return counts


def compare(mode: str, found: Counter[str], twice: dict[str, range]) -> None:
    """Judge by a recount of the input."""
    rows = [*range(LIVE_ROWS), *range(ARCHIVE_ROWS)]
    expected = Counter(f"page-{row % PAGES}" for row in rows)
    extra = Counter(f"page-{row % PAGES}" for again in twice.values() for row in again)
    for page in sorted(expected):
        print(f"  {page}: counted {found[page]}, there are {expected[page]}")
    if mode == "at-least-once":
        for uid, again in twice.items():
            if again:
                print(f"  {uid}: rows {again.start} to {again.stop - 1} were counted twice")
        expected += extra
    print("  as expected" if found == expected else f"  WRONG: expected {dict(expected)}")
    if found != expected:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
