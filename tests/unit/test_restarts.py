"""Flink's restart strategies: how often, after how long, and with which words a job gives up."""

from __future__ import annotations

import pytest

from holdfast.protocol.restarts import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    GiveUp,
    NoRestart,
    Past,
    RestartIn,
    Strategy,
    decide,
    merges,
)

QUICK = ExponentialDelay(initial=1, longest=10, multiplier=2, reset_after=100, jitter=0)


def replayed(strategy: Strategy, *failures: float, jitter: float = 0) -> list[float | None]:
    """The wait after each failure; None where the job gives up."""
    past: list[Past] = []
    waits: list[float | None] = []
    for at in failures:
        decision = decide(strategy, past, at, jitter)
        if isinstance(decision, GiveUp):
            return [*waits, None]
        past.append(Past(at, decision.seconds))
        waits.append(decision.seconds)
    return waits


def given_up(strategy: Strategy, past: int) -> str:
    decision = decide(strategy, [Past(float(n), 0) for n in range(past)], float(past), 0)
    assert isinstance(decision, GiveUp)
    return decision.why


def test_without_restarts_the_first_failure_ends_the_job() -> None:
    assert replayed(NoRestart(), 0) == [None]


def test_three_attempts_end_with_the_fourth_failure_however_far_apart() -> None:
    assert replayed(FixedDelay(3, 5), 0, 10, 1e6, 2e6) == [5, 5, 5, None]


def test_no_attempts_are_as_good_as_no_restart() -> None:
    assert replayed(FixedDelay(0, 5), 0) == [None]


def test_attempts_without_end_go_on_at_once_if_that_is_asked_for() -> None:
    assert replayed(FixedDelay(None, 0), *[0.0] * 200) == [0] * 200


def test_more_failures_than_allowed_within_the_interval_end_the_job() -> None:
    assert replayed(FailureRate(most=2, interval=60, delay=1), 0, 30, 60) == [1, 1, None]


def test_failures_that_are_spread_over_more_than_the_interval_do_not() -> None:
    assert replayed(FailureRate(most=2, interval=60, delay=1), 0, 30, 60.1, 91, 121) == [1] * 5


def test_one_failure_per_interval_is_allowed_by_default() -> None:
    assert replayed(FailureRate(), 0, 61, 122, 150) == [1, 1, 1, None]


def test_each_wait_is_longer_than_the_last_up_to_the_longest() -> None:
    assert replayed(QUICK, 0, 10, 20, 30, 50, 70) == [1, 2, 4, 8, 10, 10]


def test_after_a_quiet_time_waits_and_attempts_begin_anew() -> None:
    strategy = ExponentialDelay(1, 10, 2, reset_after=100, jitter=0, attempts=2)
    # The quiet time counts from the restart, which was at 12.
    assert replayed(strategy, 0, 10, 111.9) == [1, 2, None]
    assert replayed(strategy, 0, 10, 112) == [1, 2, 1]
    assert replayed(strategy, 0, 10, 112, 120, 130) == [1, 2, 1, 2, None]


@pytest.mark.parametrize(("jitter", "wait"), [(-1, 3), (-0.5, 3.5), (0, 4), (1, 5), (7, 5)])
def test_jitter_adds_or_takes_away_a_part_of_the_wait(jitter: float, wait: float) -> None:
    strategy = ExponentialDelay(1, 10, 2, reset_after=100, jitter=0.25)
    decision = decide(strategy, [Past(0, 1), Past(5, 2)], 10, jitter)
    assert isinstance(decision, RestartIn)
    assert decision.seconds == wait


def test_jitter_makes_no_wait_shorter_than_the_first_or_longer_than_the_longest() -> None:
    shaken = ExponentialDelay(1, 10, 2, reset_after=100, jitter=1)
    assert replayed(shaken, 0, 5, 10, jitter=-1) == [1, 1, 1]
    assert replayed(shaken, 0, 5, 10, 20, 30, jitter=1) == [2, 4, 8, 10, 10]


def test_no_number_of_restarts_is_too_much_to_count() -> None:
    past = [Past(float(n), 0.5) for n in range(5000)]
    assert decide(QUICK, past, 5000, 0) == RestartIn(10, 5001, "exponential-delay: restart 5001")


def test_a_restart_says_which_it_is_and_of_how_many() -> None:
    assert decide(FixedDelay(3, 5), [Past(0, 5)], 9, 0) == RestartIn(
        5, 2, "fixed-delay: restart 2 of 3"
    )
    assert decide(FailureRate(3, 60, 1), [Past(0, 1), Past(50, 1)], 100, 0) == RestartIn(
        1, 3, "failure-rate: 2 of 3 failures within 60 s"
    )


@pytest.mark.parametrize(
    ("strategy", "past", "words"),
    [
        (NoRestart(), 0, "NoRestartBackoffTimeStrategy"),
        (
            FixedDelay(3, 1.5),
            3,
            "FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts=3, backoffTimeMS=1500)",
        ),
        (
            FailureRate(1, 60, 1),
            1,
            "FailureRateRestartBackoffTimeStrategy(failuresIntervalMS=60000, backoffTimeMS=1000, "
            "maxFailuresPerInterval=1)",
        ),
        (
            ExponentialDelay(attempts=2),
            2,
            "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS=1000, maxBackoffMS=60000, "
            "backoffMultiplier=1.5, resetBackoffThresholdMS=3600000, jitterFactor=0.1, "
            "attemptsBeforeResetBackoff=2, currentRestartAttempt=3)",
        ),
    ],
)
def test_a_job_gives_up_in_flinks_words(strategy: Strategy, past: int, words: str) -> None:
    assert given_up(strategy, past) == f"Recovery is suppressed by {words}"


def test_a_failure_while_a_restart_is_pending_belongs_to_it() -> None:
    past = [Past(0, 1), Past(100, 10)]
    assert merges(past, 100)
    assert merges(past, 109.9)
    assert not merges(past, 110)
    assert not merges([], 0)


def test_without_a_wait_no_restart_is_ever_pending() -> None:
    assert not merges([Past(100, 0)], 100)


def test_a_clock_that_was_set_back_makes_no_restart_pending() -> None:
    assert not merges([Past(100, 10)], 50)
