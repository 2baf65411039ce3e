"""When a checkpoint is triggered, and for whom. Time is a number here."""

from __future__ import annotations

import pytest

from holdfast.protocol.triggering import (
    Cause,
    Pace,
    Past,
    Request,
    TriggerNow,
    WaitUntil,
    next_trigger,
)

USER = Request(Cause.USER, 100.0, "user")
FINAL = Request(Cause.FINAL, 200.0, "final")


def _periodic(now: float) -> TriggerNow:
    return TriggerNow(Request(Cause.PERIODIC, now))


def test_the_first_periodic_checkpoint_comes_an_interval_after_the_start() -> None:
    pace, past = Pace(10.0), Past(started=100.0)
    assert next_trigger(pace, past, [], 0, 109.9) == WaitUntil(110.0)
    assert next_trigger(pace, past, [], 0, 110.0) == _periodic(110.0)


def test_periodic_checkpoints_come_an_interval_after_the_last_trigger() -> None:
    past = Past(100.0, last_trigger=110.0, last_completion=113.0)
    assert next_trigger(Pace(10.0), past, [], 0, 113.0) == WaitUntil(120.0)
    assert next_trigger(Pace(10.0), past, [], 0, 120.0) == _periodic(120.0)


def test_a_clock_that_starts_at_zero_is_a_clock() -> None:
    past = Past(started=-50.0, last_trigger=0.0)
    assert next_trigger(Pace(10.0), past, [], 0, 1.0) == WaitUntil(10.0)


def test_a_late_coordinator_triggers_once_and_not_once_for_each_missed_interval() -> None:
    late = 175.0
    assert next_trigger(Pace(10.0), Past(100.0, 110.0), [], 0, late) == _periodic(late)
    assert next_trigger(Pace(10.0), Past(100.0, late), [], 0, late) == WaitUntil(185.0)


def test_the_pause_counts_from_the_last_completion() -> None:
    pace = Pace(10.0, min_pause=5.0)
    past = Past(100.0, last_trigger=110.0, last_completion=118.0)
    assert next_trigger(pace, past, [], 0, 120.0) == WaitUntil(123.0)
    assert next_trigger(pace, past, [], 0, 123.0) == _periodic(123.0)


def test_a_checkpoint_that_failed_does_not_start_the_pause() -> None:
    past = Past(100.0, last_trigger=110.0, last_completion=None)
    assert next_trigger(Pace(10.0, min_pause=9.0), past, [], 0, 120.0) == _periodic(120.0)


def test_a_pause_longer_than_the_interval_raises_the_interval() -> None:
    assert Pace(1.0, min_pause=30.0).period == 30.0
    assert next_trigger(Pace(1.0, 30.0), Past(100.0), [], 0, 129.0) == WaitUntil(130.0)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_than_the_maximum_are_in_flight_whoever_asks(most: int) -> None:
    pace = Pace(10.0, max_concurrent=most)
    for queue in ([], [USER], [FINAL]):
        assert next_trigger(pace, Past(0.0), queue, most, 1000.0) == WaitUntil(None)
        assert isinstance(next_trigger(pace, Past(0.0), queue, most - 1, 1000.0), TriggerNow)


def test_a_user_waits_neither_for_the_interval_nor_for_the_pause() -> None:
    past = Past(100.0, last_trigger=110.0, last_completion=110.5)
    pace = Pace(60.0, min_pause=60.0)
    assert next_trigger(pace, past, [USER], 0, 111.0) == TriggerNow(USER)


def test_a_user_is_served_before_a_periodic_checkpoint_that_is_due() -> None:
    assert next_trigger(Pace(10.0), Past(0.0), [USER], 0, 1000.0) == TriggerNow(USER)


def test_the_final_checkpoint_is_served_first_and_users_in_the_order_in_which_they_asked() -> None:
    early, late = USER, Request(Cause.USER, 150.0, "later")
    assert next_trigger(Pace(None), Past(0.0), [late, FINAL, early], 0, 300.0) == TriggerNow(FINAL)
    assert next_trigger(Pace(None), Past(0.0), [late, early], 0, 300.0) == TriggerNow(early)


def test_the_final_checkpoint_comes_at_once_despite_a_huge_interval() -> None:
    assert next_trigger(Pace(1e9), Past(0.0), [FINAL], 0, 200.0) == TriggerNow(FINAL)


def test_a_triggered_checkpoint_of_any_cause_moves_the_next_periodic_one() -> None:
    past = Past(100.0, last_trigger=117.0)
    assert next_trigger(Pace(10.0), past, [], 0, 120.0) == WaitUntil(127.0)


def test_without_an_interval_only_requests_trigger() -> None:
    assert next_trigger(Pace(None), Past(0.0), [], 0, 1e9) == WaitUntil(None)
    assert next_trigger(Pace(None), Past(0.0), [USER], 0, 101.0) == TriggerNow(USER)


def test_a_request_says_whether_it_must_be_full() -> None:
    full = Request(Cause.USER, 1.0, "user", full=True)
    decision = next_trigger(Pace(None), Past(0.0), [full], 0, 2.0)
    assert isinstance(decision, TriggerNow)
    assert decision.request.full
    assert not Request(Cause.PERIODIC, 1.0).full


def test_nothing_is_triggered_while_a_sink_has_yet_to_commit() -> None:
    past = Past(100.0, last_trigger=110.0, last_completion=113.0)
    for queue in ([], [USER], [FINAL]):
        assert next_trigger(Pace(10.0), past, queue, 0, 500.0, uncommitted=True) == WaitUntil(None)
