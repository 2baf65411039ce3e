"""A job dies before and after every step of a checkpoint in turn, and again while it restarts.

One job lives through all of it. A death before a step is followed by a restart that goes on until
that step is done; a death after it by a restart that dies too, at one of five points in turn.
Whatever happens, what is visible is covered by the newest completed checkpoint and covers the one
before, and in the end every row was counted once.
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

RESTART = ["start:before", "restore:before", "recover:after", "restore:after", "start:after"]
"""Where the restart dies: one of them after each step, so that each comes two or three times."""
SLOWER = 40
"""The rows must last for all lives, three for each step: a job whose rows have come to an end
reaches no step any more. The pace counts from the start of each life, so this leaves 15 s for each,
of which it needs one to four on an idle machine. The last life reads the rest at once.
"""


def spec() -> JobSpec:
    job = chain(60_000)
    slower = tuple(
        replace(source, rows_per_second=source.rows_per_second / SLOWER, rows_per_batch=100)
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
        die(process, f"{step}:before#{times}")
        die(process, f"{step}:after#{times}")
        die_again(process, next(restarts))
    last = JobProcess(hurried(job), tmp_path / "job")
    last.start()
    last.finish()
    check_output(job, last.out, everything(job))


def die(process: JobProcess, point: str, restore: str | None = None) -> None:
    print(point, flush=True)
    process.start(crash_at=point, restore=restore)
    assert process.wait() == -9, f"{point} was not reached:\n{process.words()}"
    check_visible(process)


def die_again(process: JobProcess, point: str) -> None:
    """Restart, plainly or from the newest checkpoint, and die on the way."""
    completed = process.checkpoints()
    if "restore" not in point:
        die(process, point)
    elif completed:
        die(process, point, restore=process.path_of(completed[-1]))
    else:  # there is nothing to restore from yet
        die(process, "start:after")


def check_visible(process: JobProcess) -> None:
    completed = process.checkpoints()
    nothing = Recount(process.spec, {})
    last = at_checkpoint(process.spec, completed[-1]) if completed else nothing
    before = at_checkpoint(process.spec, completed[-2]) if len(completed) > 1 else nothing
    check_between(process.spec, process.out, before, last)
