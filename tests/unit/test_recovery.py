from __future__ import annotations

import pytest

from holdfast.protocol.recovery import (
    Candidate,
    Fresh,
    FromLatest,
    Nowhere,
    Plan,
    Policy,
    Restore,
    Resume,
    choose,
    lagging,
    policy_of,
)
from holdfast.settings import BoundedRestart, Mode

GOOD_7, GOOD_6 = Candidate(7, "/c/chk-7"), Candidate(6, "/c/chk-6")
BAD_7 = Candidate(7, "/c/chk-7", "shared/ab is missing")
BAD_6 = Candidate(6, "/c/chk-6", "_metadata was altered")
DAMAGED = "regions/pv/offsets/9 is cut short"


def chosen(
    *candidates: Candidate,
    own: str | None = DAMAGED,
    may_use_own: bool = True,
    ever_completed: bool = True,
    policy: Policy = Policy.RECOVER,
) -> Plan:
    return choose(policy, own, candidates, may_use_own=may_use_own, ever_completed=ever_completed)


def test_query_logs_that_are_intact_are_gone_on_with() -> None:
    assert chosen(GOOD_7, own=None) == Resume()
    assert chosen(own=None, ever_completed=False) == Resume()


def test_without_them_the_newest_checkpoint_is_restored() -> None:
    assert chosen(GOOD_7, GOOD_6) == Restore(GOOD_7)


def test_query_logs_that_did_not_help_are_not_tried_again() -> None:
    assert chosen(GOOD_7, own=None, may_use_own=False) == Restore(GOOD_7)


def test_a_checkpoint_that_cannot_be_used_is_skipped_and_named() -> None:
    assert chosen(BAD_7, GOOD_6) == Restore(GOOD_6, (BAD_7,))


def test_an_older_checkpoint_that_is_damaged_does_not_matter() -> None:
    assert chosen(GOOD_7, BAD_6) == Restore(GOOD_7)


def test_a_job_that_never_completed_a_checkpoint_may_begin_again() -> None:
    assert chosen(ever_completed=False) == Fresh()
    assert chosen(ever_completed=False, may_use_own=False) == Fresh()


@pytest.mark.parametrize("ever_completed", [False, True])
def test_without_any_checkpoint_intact_query_logs_are_gone_on_with_even_if_they_did_not_help(
    ever_completed: bool,
) -> None:
    assert chosen(own=None, may_use_own=False, ever_completed=ever_completed) == Resume()


def test_a_job_without_a_usable_checkpoint_fails_with_every_problem_named() -> None:
    assert chosen(BAD_7, BAD_6) == Nowhere(
        "own query logs: regions/pv/offsets/9 is cut short; "
        "checkpoint 7 (/c/chk-7): shared/ab is missing; "
        "checkpoint 6 (/c/chk-6): _metadata was altered"
    )


def test_checkpoints_that_were_completed_and_are_gone_do_not_let_it_begin_again() -> None:
    assert chosen() == Nowhere(
        "own query logs: regions/pv/offsets/9 is cut short; "
        "checkpoints: there were some, and none is left"
    )


def test_a_job_whose_query_logs_did_not_help_is_not_begun_again_over_damaged_checkpoints() -> None:
    assert chosen(BAD_7, own=None, may_use_own=False) == Nowhere(
        "own query logs: they did not help; checkpoint 7 (/c/chk-7): shared/ab is missing"
    )


def test_a_query_log_that_ends_before_a_checkpoints_cut_has_lost_batches() -> None:
    cuts = {"left": 5, "right": 2, "gone": 9}
    assert lagging({"left": 4, "right": 2}, cuts) == ["left"]
    assert lagging({"left": 7, "right": 2, "new": -1}, cuts) == []


def test_a_damaged_checkpoint_is_proof_that_one_was_completed() -> None:
    assert isinstance(chosen(BAD_7, ever_completed=False), Nowhere)


@pytest.mark.parametrize("own", [None, DAMAGED])
def test_at_most_once_goes_on_at_the_newest_input_whatever_there_is(own: str | None) -> None:
    assert chosen(GOOD_7, own=own, policy=Policy.LATEST) == FromLatest()


@pytest.mark.parametrize("own", [None, DAMAGED])
def test_a_bounded_job_may_begin_again_whatever_there_is(own: str | None) -> None:
    assert chosen(GOOD_7, own=own, policy=Policy.SCRATCH) == Fresh()


@pytest.mark.parametrize(
    ("mode", "bounded_restart", "is_bounded", "policy"),
    [
        (Mode.EXACTLY_ONCE, BoundedRestart.CHECKPOINT, True, Policy.RECOVER),
        (Mode.AT_LEAST_ONCE, BoundedRestart.SCRATCH, False, Policy.RECOVER),
        (Mode.EXACTLY_ONCE, BoundedRestart.SCRATCH, True, Policy.SCRATCH),
        (Mode.AT_MOST_ONCE, BoundedRestart.CHECKPOINT, True, Policy.LATEST),
        (Mode.AT_MOST_ONCE, BoundedRestart.CHECKPOINT, False, Policy.LATEST),
    ],
)
def test_settings_say_what_is_asked_for(
    mode: Mode, bounded_restart: BoundedRestart, is_bounded: bool, policy: Policy
) -> None:
    assert policy_of(mode, bounded_restart, is_bounded=is_bounded) is policy
