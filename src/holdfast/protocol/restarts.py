"""Whether and when to restart: a fold over the failures so far, as Flink's strategies do it.

Nothing is remembered here. Whoever has the same list of failures comes to the same answer, in
whichever process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.settings.strategies import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    Strategy,
)

__all__ = [
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "GiveUp",
    "NoRestart",
    "Past",
    "RestartIn",
    "Strategy",
    "decide",
    "merges",
]


@dataclass(frozen=True, slots=True)
class Past:
    """A failure that led to a restart: when it happened, and how long was waited."""

    at: float
    delay: float


@dataclass(frozen=True, slots=True)
class RestartIn:
    """Restart after so many seconds. ``attempt`` is the number of this restart, from 1."""

    seconds: float
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The job fails."""

    why: str


def merges(past: Sequence[Past], now: float) -> bool:
    """Whether a failure belongs to the one before, whose restart is still to come.

    A failure that seems to lie before the last one has a clock that was set back; it counts for
    itself, for nobody can say how long ago the last one was.
    """
    return bool(past) and past[-1].at <= now < past[-1].at + past[-1].delay


def decide(
    strategy: Strategy, past: Sequence[Past], now: float, jitter: float
) -> RestartIn | GiveUp:
    """What follows from a failure that is ``now`` and merges with none before.

    ``past`` has the earlier ones, oldest first; ``jitter`` is a random number from -1 to 1.
    """
    match strategy:
        case FixedDelay():
            return _fixed_delay(strategy, past)
        case FailureRate():
            return _failure_rate(strategy, past, now)
        case ExponentialDelay():
            return _exponential_delay(strategy, past, now, jitter)
        case NoRestart():
            return _give_up("No")


def _fixed_delay(strategy: FixedDelay, past: Sequence[Past]) -> RestartIn | GiveUp:
    attempt = len(past) + 1
    if strategy.attempts is not None and attempt > strategy.attempts:
        return _give_up(
            "FixedDelay",
            maxNumberRestartAttempts=strategy.attempts,
            backoffTimeMS=_millis(strategy.delay),
        )
    return RestartIn(strategy.delay, attempt, _counted("fixed-delay", attempt, strategy.attempts))


def _failure_rate(strategy: FailureRate, past: Sequence[Past], now: float) -> RestartIn | GiveUp:
    # With this one they are one more than allowed: all within the interval is too many.
    recent = past[-strategy.most :]
    if len(recent) == strategy.most and now - recent[0].at <= strategy.interval:
        return _give_up(
            "FailureRate",
            failuresIntervalMS=_millis(strategy.interval),
            backoffTimeMS=_millis(strategy.delay),
            maxFailuresPerInterval=strategy.most,
        )
    within = sum(now - failure.at <= strategy.interval for failure in past) + 1
    why = f"failure-rate: {within} of {strategy.most} failures within {strategy.interval:g} s"
    return RestartIn(strategy.delay, len(past) + 1, why)


def _exponential_delay(
    strategy: ExponentialDelay, past: Sequence[Past], now: float, jitter: float
) -> RestartIn | GiveUp:
    before = _since_reset(strategy, past, now)
    attempt = before + 1
    if strategy.attempts is not None and attempt > strategy.attempts:
        return _give_up(
            "ExponentialDelay",
            initialBackoffMS=_millis(strategy.initial),
            maxBackoffMS=_millis(strategy.longest),
            backoffMultiplier=strategy.multiplier,
            resetBackoffThresholdMS=_millis(strategy.reset_after),
            jitterFactor=strategy.jitter,
            attemptsBeforeResetBackoff=strategy.attempts,
            currentRestartAttempt=attempt,
        )
    why = _counted("exponential-delay", attempt, strategy.attempts)
    return RestartIn(_backoff(strategy, before, jitter), attempt, why)


def _since_reset(strategy: ExponentialDelay, past: Sequence[Past], now: float) -> int:
    """Restarts since the job last ran undisturbed for long enough, counted from its restart."""
    count, ends = 0, [*(failure.at for failure in past), now][1:]
    for failure, next_at in zip(past, ends, strict=True):
        is_quiet = next_at - (failure.at + failure.delay) >= strategy.reset_after
        count = 0 if is_quiet else count + 1
    return count


def _backoff(strategy: ExponentialDelay, before: int, jitter: float) -> float:
    try:
        backoff = strategy.initial * float(strategy.multiplier) ** before
    except OverflowError:
        backoff = sys.float_info.max
    # The wait itself is not yet bounded here, as in Flink: late restarts lose their jitter.
    shaken = backoff + max(-1.0, min(jitter, 1.0)) * strategy.jitter * backoff
    return max(strategy.initial, min(shaken, strategy.longest))


def _counted(name: str, attempt: int, attempts: int | None) -> str:
    return f"{name}: restart {attempt}" + ("" if attempts is None else f" of {attempts}")


def _give_up(name: str, **parameters: float) -> GiveUp:
    said = ", ".join(f"{key}={value}" for key, value in parameters.items())
    # Flink's words and names, because people search their logs for them.
    strategy = f"{name}RestartBackoffTimeStrategy" + (f"({said})" if said else "")
    return GiveUp(f"Recovery is suppressed by {strategy}")


def _millis(seconds: float) -> int:
    return round(seconds * 1000)
