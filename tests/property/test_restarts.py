"""Random failures: waits stay within their bounds, grow, begin anew, and are the same on replay."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

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

JITTER = st.floats(-1, 1)
ATTEMPTS = st.none() | st.integers(1, 8)


@st.composite
def exponentials(draw: st.DrawFn) -> ExponentialDelay:
    initial = draw(st.floats(0.001, 100))
    return ExponentialDelay(
        initial=initial,
        longest=initial * draw(st.floats(1, 1000)),
        multiplier=draw(st.floats(1.001, 10)),
        reset_after=draw(st.floats(0.001, 10_000)),
        jitter=draw(st.floats(0, 1)),
        attempts=draw(ATTEMPTS),
    )


STRATEGIES: st.SearchStrategy[Strategy] = st.one_of(
    st.just(NoRestart()),
    st.builds(FixedDelay, ATTEMPTS, st.floats(0, 100)),
    st.builds(FailureRate, st.integers(1, 5), st.floats(0.001, 100), st.floats(0, 10)),
    exponentials(),
)
# How long after the last restart each failure comes (or within its wait, if negative).
RUNS = st.lists(st.tuples(st.floats(-5, 20_000), JITTER), max_size=40)


def history(
    strategy: Strategy, run: list[tuple[float, float]]
) -> list[tuple[float, RestartIn | GiveUp]]:
    """What is decided on each failure that merges with none before, until the job gives up."""
    past: list[Past] = []
    found: list[tuple[float, RestartIn | GiveUp]] = []
    now = 0.0
    for after, jitter in run:
        ready = past[-1].at + past[-1].delay if past else now
        now = max(now, ready + after)
        if merges(past, now):
            continue
        decision = decide(strategy, past, now, jitter)
        found.append((now, decision))
        if isinstance(decision, GiveUp):
            return found
        past.append(Past(now, decision.seconds))
    return found


@given(STRATEGIES, RUNS)
def test_every_process_with_the_same_failures_comes_to_the_same_answers(
    strategy: Strategy, run: list[tuple[float, float]]
) -> None:
    assert history(strategy, run) == history(strategy, run)


@given(exponentials(), RUNS)
def test_waits_stay_between_the_first_and_the_longest(
    strategy: ExponentialDelay, run: list[tuple[float, float]]
) -> None:
    for _, decision in history(strategy, run):
        if isinstance(decision, RestartIn):
            assert strategy.initial <= decision.seconds <= strategy.longest


@given(exponentials(), st.integers(1, 60))
def test_without_jitter_and_quiet_times_waits_only_grow_until_they_are_the_longest(
    drawn: ExponentialDelay, failures: int
) -> None:
    strategy = ExponentialDelay(drawn.initial, drawn.longest, drawn.multiplier, jitter=0)
    found = history(strategy, [(0.0, 1.0)] * failures)
    waits = [decision.seconds for _, decision in found if isinstance(decision, RestartIn)]
    assert waits[0] == strategy.initial
    assert waits == sorted(waits)
    assert all(a < b or b == strategy.longest for a, b in pairwise(waits))


@given(exponentials(), RUNS)
def test_attempts_begin_anew_exactly_after_a_quiet_time(
    strategy: ExponentialDelay, run: list[tuple[float, float]]
) -> None:
    found = history(strategy, run)
    for (before, last), (now, decision) in pairwise(found):
        assert isinstance(last, RestartIn)
        is_quiet = now - (before + last.seconds) >= strategy.reset_after
        attempt = 1 if is_quiet else last.attempt + 1
        if isinstance(decision, RestartIn):
            assert decision.attempt == attempt
        else:
            assert strategy.attempts is not None
            assert attempt > strategy.attempts


@given(st.builds(FailureRate, st.integers(1, 5), st.floats(0.001, 100), st.floats(0, 10)), RUNS)
def test_a_job_gives_up_exactly_when_too_many_failures_fall_into_one_interval(
    strategy: FailureRate, run: list[tuple[float, float]]
) -> None:
    found = history(strategy, run)
    times = [at for at, _ in found]
    for number, (now, decision) in enumerate(found):
        within = sum(now - at <= strategy.interval for at in times[: number + 1])
        assert isinstance(decision, GiveUp) == (within > strategy.most)


@given(st.integers(0, 8), RUNS)
def test_fixed_attempts_are_used_up_and_not_one_more(
    attempts: int, run: list[tuple[float, float]]
) -> None:
    found = [decision for _, decision in history(FixedDelay(attempts, 0), run)]
    restarts = [decision for decision in found if isinstance(decision, RestartIn)]
    assert len(restarts) == min(attempts, len(run))
    assert (len(found) > len(restarts)) == (len(run) > attempts)
