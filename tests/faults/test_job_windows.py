"""Event-time windows come once, with the exact count, however often the job is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.jobs.judge import visible
from tests.faults.jobs.process import JobProcess
from tests.faults.jobs.specs import WINDOW, JobSpec, RegionSpec, SourceSpec

ROWS = 2_000
KILLS = 1


@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_every_window_comes_once_with_its_exact_count(backend: str, tmp_path: Path) -> None:
    windows = RegionSpec("windows", "window", ("rows",))
    spec = JobSpec(
        (SourceSpec("times", ROWS, 90, 400),),
        (RegionSpec("rows", "pass", ("times",), modulus=ROWS + 1), windows),
        {"state.backend.type": backend, "execution.checkpointing.incremental": "true"},
    )
    process = JobProcess(spec, tmp_path / "job")
    for kill in range(1, KILLS + 1):
        process.start()
        process.wait_until(lambda n=kill: len(visible(process.out, windows)) >= 5 * n)  # type: ignore[misc]
        assert process.running, "it ended before it was killed"
        process.kill()
    process.start(restore=process.path_of(process.checkpoints()[-1]))
    process.finish()
    found = Counter((row["start"], row["count"]) for row in visible(process.out, windows))
    # Row 0 is not let through. A window is out when a later row has been seen.
    closed = {(start, WINDOW - (start == 0)): 1 for start in range(0, ROWS - WINDOW, WINDOW)}
    assert found == Counter(closed)
