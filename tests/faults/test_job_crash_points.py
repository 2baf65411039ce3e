"""A job dies before and after every step of a checkpoint in turn, and again while it restarts.

One job lives through all of it: each death is followed by a restart that dies too, and that by one
that goes on until the next point. Whatever happens, what is visible is covered by a completed
checkpoint, and in the end every row was counted once.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.jobs.judge import (
    Recount,
    at_checkpoint,
    check_between,
    check_output,
    everything,
)
from tests.faults.jobs.process import JobProcess
from tests.faults.jobs.specs import JobSpec, chain, hurried

STEPS = {
    "trigger": 2,
    "barrier": 1,
    "publish": 4,
    "pin": 2,
    "precommit": 3,
    "copy": 4,
    "acknowledge": 5,
    "metadata": 1,
    "store": 2,
    "subsume": 1,
    "commit": 2,
    "notify": 1,
    "delete": 3,
}
"""With the how manyeth time of it in a process is the last."""

AGAIN = {"publish", "precommit", "copy", "store", "commit", "delete"}
"""After these the restart dies too."""
RESTART = ["start:before", "restore:before", "recover:after", "restore:after", "start:after"]


def spec() -> JobSpec:
    job = chain(60_000)
    slower = tuple(
        replace(source, rows_per_second=source.rows_per_second / 5, rows_per_batch=100)
        for source in job.sources
    )
    settings = {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.num-retained": 2,
    }
    return replace(job, sources=slower, settings=settings)


@pytest.mark.timeout(1200)
def test_a_job_that_dies_at_every_step_and_again_at_its_restart_counts_every_row_once(
    tmp_path: Path,
) -> None:
    job = spec()
    process = JobProcess(job, tmp_path / "job")
    restarts = itertools.cycle(RESTART)
    for step, times in STEPS.items():
        for point in (f"{step}:before#{times}", f"{step}:after#{times}"):
            print(point, flush=True)
            process.start(crash_at=point)
            assert process.wait() == -9, f"{point} was not reached:\n{process.words()}"
            check_visible(process)
            if point.startswith(f"{step}:after") and step in AGAIN:
                die_again(process, next(restarts))
    last = JobProcess(hurried(job), tmp_path / "job")
    last.start()
    last.finish()
    check_output(job, last.out, everything(job))


def die_again(process: JobProcess, point: str) -> None:
    """Restart, plainly or from the newest checkpoint, and die on the way."""
    newest = process.checkpoints()
    restore = process.path_of(newest[-1]) if newest and "restore" in point else None
    if restore is None and "restore" in point:
        point = "start:after"
    process.start(crash_at=point, restore=restore)
    assert process.wait() == -9, f"{point} was not reached:\n{process.words()}"
    check_visible(process)


def check_visible(process: JobProcess) -> None:
    completed = process.checkpoints()
    nothing = Recount(process.spec, {})
    last = at_checkpoint(process.spec, completed[-1]) if completed else nothing
    before = at_checkpoint(process.spec, completed[-2]) if len(completed) > 1 else nothing
    check_between(process.spec, process.out, before, last)
