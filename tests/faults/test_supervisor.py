"""``holdfast run`` and its supervisor: whatever dies or hangs, rows are exact and nothing stays.

Few jobs, each hurt many times: most of the time here goes into starting Spark.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.jobs.judge import check_output, everything
from tests.faults.jobs.specs import JobSpec, RegionSpec, SourceSpec
from tests.faults.jobs.supervised import SCRIPT, Supervised

HURTFUL = f"""\
import time
from dataclasses import replace
{SCRIPT}

def hang_while_told(batches):
    for batch in batches:
        while (out / "hang").exists():
            time.sleep(0.05)
        yield batch


def exhaust_memory_once(rows):
    if (out / "oom").exists():
        (out / "oom").unlink()
        rows.sparkSession._jvm.java.nio.ByteBuffer.allocate(2**31 - 1)
    return rows.mapInArrow(hang_while_told, rows.schema)


inner = job._regions[0].build
job._regions[0] = replace(
    job._regions[0], build=lambda rows: inner(exhaust_memory_once(rows))
)
"""


def spec(rows: int, **settings: str) -> JobSpec:
    """One source, a region that may hang, and a count behind a channel."""
    return JobSpec(
        (SourceSpec("s", rows, 300, 1000),),
        (RegionSpec("first", "pass", ("s",)), RegionSpec("counts", "count", ("first",))),
        {"heartbeat.interval": "300ms", **settings},
    )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[[JobSpec], Supervised]]:
    made: list[Supervised] = []

    def make(job: JobSpec) -> Supervised:
        made.append(Supervised(tmp_path, job, HURTFUL))
        return made[-1]

    yield make
    for each in made:
        each.kill_everything()


def test_a_job_survives_the_death_of_everything_but_its_supervisor(
    place: Callable[[JobSpec], Supervised],
) -> None:
    job = spec(
        15_000,
        **{
            "heartbeat.timeout": "8s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "12",
            "restart-strategy.fixed-delay.delay": "2s",
        },
    )
    here = place(job)
    (here.root / "oom").touch()
    supervisor = here.run("--json", "--fresh")  # once, and not with every restart

    here.wait_for(lambda: here.events("restart"))  # out of memory
    second = here.runner()
    here.next_checkpoint()
    before = len(here.events("restart"))
    os.kill(second.process.pid, signal.SIGKILL)
    here.wait_for(lambda: len(here.events("restart")) > before)
    assert second.jvm is not None
    assert not second.jvm.runs
    here.wait_for(lambda: any(each.is_restarting for each in here.registry.running()))

    third = here.runner(other_than=second)
    assert third.supervisor is not None
    assert third.supervisor.pid == supervisor.pid
    here.next_checkpoint()
    assert third.jvm is not None
    os.kill(third.jvm.pid, signal.SIGKILL)

    fourth = here.runner(other_than=third)
    here.next_checkpoint()
    assert fourth.jvm is not None
    os.kill(fourth.jvm.pid, signal.SIGSTOP)

    assert here.end(supervisor) == 0, here.words()
    check_output(job, here.root, everything(job))
    assert here.processes() == []
    assert here.registry.running() == []
    every = [event["cause"] for event in here.events("restart")]
    causes = [cause for cause in every if not _started_slowly(cause)]
    assert len(causes) == 4, every
    assert causes[1] == "the runner was killed by SIGKILL"
    assert "JVM has ended" in causes[0]
    assert "JVM has ended" in causes[2]
    assert causes[3].startswith("the runner hangs: no heartbeat")
    assert [event["state"] for event in here.events("end")] == ["FINISHED"]
    deaths = [each for each in here.failures() if each.error == "RunnerDied"]
    assert [each.message for each in deaths] == every
    assert [each.attempt for each in deaths] == [*range(1, len(every) + 1)]
    assert all(each.recovered is not None for each in deaths)
    assert "holdfast.JvmLost" in [each.error for each in here.failures()]
    logs = [path.read_text() for path in here.log.parent.glob(f"{here.log.name}.*")]
    hung = [log for log in logs if "is halted by a signal" in log]
    assert any("in _beat" in log and "state=RUNNING" in log for log in hung)
    assert any("Terminating due to java.lang.OutOfMemoryError" in log for log in logs)


def _started_slowly(cause: str) -> bool:
    """On a machine that is very busy a new runner may be silent for too long by itself."""
    return "since it was started" in cause or "it was CREATED" in cause


def test_a_stuck_job_is_restarted_until_its_strategy_gives_up_and_can_be_run_again(
    place: Callable[[JobSpec], Supervised],
) -> None:
    job = spec(
        12_000,
        **{
            "holdfast.stuck-timeout": "6s",
            "holdfast.spark.master": "local[4]",  # checkpoints go on: tasks are left for them
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "100ms",
        },
    )
    here = place(job)
    (here.root / "hang").touch()
    supervisor = here.run()
    assert here.end(supervisor) == 5, here.words()
    said = (here.root / "err").read_text()
    assert re.search(r"the runner is stuck: there is work, but for \d+ s no task has ended", said)
    assert "; restart 1 in 0.1 s" in said
    assert "error RUNNER_LOST" in said
    assert "Recovery is suppressed by FixedDelayRestartBackoffTimeStrategy" in said
    assert here.processes() == []
    for log in (here.log, Path(f"{here.log}.1")):
        stacks = log.read_text()
        assert "the runner is stuck" in stacks
        assert 'File "' in stacks  # Python's
        assert "Full thread dump" in stacks  # Java's
    assert "Full thread dump" not in (here.root / "out").read_text()
    assert [each.decision.partition(":")[0] for each in here.failures()] == [
        "a new process after 0.1 s",
        "the job failed",
    ]
    (here.root / "hang").unlink()
    patient = ("--set", "holdfast.stuck-timeout=0")

    # The supervisor is killed: the runner stops in order, and nothing remains.
    abandoned = here.run(*patient)
    here.next_checkpoint()
    abandoned.kill()
    abandoned.wait()
    here.wait_for(lambda: not here.processes())
    assert "stopping because of the end of its supervisor" in (here.root / "err").read_text()
    assert here.registry.running() == []

    # The runner is killed: until its restart commands find the supervisor in its place.
    waiting = here.run(*patient, "--set", "restart-strategy.fixed-delay.delay=10min")
    runner = here.runner()
    os.kill(runner.process.pid, signal.SIGKILL)
    here.wait_for(lambda: any(r.is_restarting for r in here.registry.running()))
    (entry,) = here.json("list")
    assert (entry["state"], entry["pid"]) == ("RESTARTING", waiting.pid)
    assert "attempt 1 in 9m" in here.holdfast("list").stdout
    assert "killed by SIGKILL" in here.holdfast("info", "job").stdout
    known = here.json("exceptions", "job")
    assert known["job"]["state"] == "RESTARTING"
    assert len(known["failures"]) == 2
    assert here.holdfast("checkpoint", "job").returncode == 4
    second = here.run()
    assert here.end(second) == 2
    assert f"pid={waiting.pid}" in (here.root / "err").read_text()
    assert here.json("cancel", "job")["state"] == "SUSPENDED"
    assert here.end(waiting) == 143
    assert here.processes() == []
    assert here.registry.running() == []

    assert here.end(here.run(*patient)) == 0, here.words()
    check_output(job, here.root, everything(job))
    assert here.processes() == []
