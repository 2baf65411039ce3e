from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.protocol.watching import Alive, Hung, Limits, Pulse, Stuck, Watch, hear, judge, start

LIMITS = Limits(heartbeat_timeout=50, stuck_timeout=600)
BUSY = Pulse(0, "RUNNING", batches=3, tasks=40, checkpoints=1, busy=True)


def watched(pulse: Pulse, until: int, every: int = 10) -> Watch:
    """A runner that tells the same from 0 on."""
    watch = start(0)
    for at in range(0, until + 1, every):
        watch = hear(watch, replace(pulse, at=float(at)))
    return watch


def test_a_runner_that_was_just_started_is_alive() -> None:
    assert judge(start(1000), 1049, LIMITS) == Alive()


def test_a_runner_that_was_never_heard_of_hangs() -> None:
    assert judge(start(1000), 1050, LIMITS) == Hung("no heartbeat since it was started 50 s ago")


def test_a_runner_that_falls_silent_hangs() -> None:
    watch = watched(BUSY, 20)
    assert judge(watch, 69.9, LIMITS) == Alive()
    assert judge(watch, 70, LIMITS) == Hung(
        "no heartbeat for 50 s; with the last one it was RUNNING"
    )


def test_a_runner_that_is_heard_of_again_is_alive() -> None:
    watch = hear(watched(BUSY, 20), replace(BUSY, at=69))
    assert judge(watch, 118, LIMITS) == Alive()


def test_a_runner_that_has_work_and_gets_nothing_done_is_stuck() -> None:
    assert judge(watched(BUSY, 590), 599, LIMITS) == Alive()
    verdict = judge(watched(BUSY, 600), 600, LIMITS)
    assert verdict == Stuck(
        "there is work, but for 600 s no task has ended, no batch was committed and no checkpoint "
        "completed (so far 40 tasks, 3 batches, 1 checkpoints)"
    )


def test_a_runner_that_is_both_silent_and_stuck_hangs() -> None:
    assert isinstance(judge(watched(BUSY, 600), 700, LIMITS), Hung)


@pytest.mark.parametrize("moved", ["batches", "tasks", "checkpoints"])
def test_whatever_moves_is_progress(moved: str) -> None:
    counts = {"batches": 3, "tasks": 40, "checkpoints": 1}
    counts[moved] += 1
    progress = replace(BUSY, at=595, **counts)  # type: ignore[arg-type]
    watch = hear(watched(BUSY, 590), progress)
    watch = hear(watch, replace(progress, at=1190))
    assert judge(watch, 1194, LIMITS) == Alive()
    assert isinstance(judge(watch, 1195, LIMITS), Stuck)


def test_counts_that_begin_anew_are_progress() -> None:
    watch = hear(watched(BUSY, 590), replace(BUSY, at=595, tasks=0, batches=0))
    assert judge(watch, 610, LIMITS) == Alive()


@pytest.mark.parametrize(
    "excuse",
    [
        replace(BUSY, busy=False),
        replace(BUSY, waiting="a sink's server"),
        replace(BUSY, state="RESTARTING", waiting="a restart"),
        replace(BUSY, state="CREATED"),
        replace(BUSY, state="SUSPENDED"),
    ],
)
def test_who_has_nothing_to_do_or_may_wait_is_never_stuck(excuse: Pulse) -> None:
    assert judge(watched(excuse, 10_000), 10_000, LIMITS) == Alive()


@pytest.mark.parametrize("state", ["RESTARTING", "CANCELLING", "FAILING"])
def test_a_runner_that_does_not_get_done_with_stopping_is_stuck(state: str) -> None:
    watch = hear(watched(replace(BUSY, busy=False), 5000), replace(BUSY, at=5010, state=state))
    for at in range(5020, 5621, 10):
        watch = hear(watch, replace(BUSY, at=at, state=state, busy=False))
    assert judge(watch, 5609, LIMITS) == Alive()
    assert judge(watch, 5620, LIMITS) == Stuck(
        f"it is {state}, but for 610 s no task has ended, no batch was committed and no checkpoint "
        "completed (so far 40 tasks, 3 batches, 1 checkpoints)"
    )


def test_a_job_that_begins_to_stop_has_all_the_time_for_that() -> None:
    watch = hear(watched(BUSY, 590), replace(BUSY, at=599, state="RESTARTING"))
    assert judge(watch, 640, LIMITS) == Alive()
    assert watch.moved == 599


def test_time_without_work_does_not_count() -> None:
    watch = watched(replace(BUSY, busy=False), 5000)
    watch = hear(watch, replace(BUSY, at=5010))
    watch = hear(watch, replace(BUSY, at=5590))
    assert judge(watch, 5599, LIMITS) == Alive()
    assert isinstance(judge(hear(watch, replace(BUSY, at=5600)), 5600, LIMITS), Stuck)


def test_without_a_limit_nothing_is_ever_stuck() -> None:
    limits = Limits(heartbeat_timeout=50, stuck_timeout=None)
    assert judge(watched(BUSY, 100_000, every=40), 100_000, limits) == Alive()
