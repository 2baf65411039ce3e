"""When the next checkpoint is triggered, and for whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

MOST_REQUESTS = 1000
"""As many may wait; further ones are refused."""


class Cause(IntEnum):
    """Who asks, in the order in which they are served."""

    FINAL = 0
    """All input has ended; the last checkpoint commits everything."""
    USER = 1
    PERIODIC = 2


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """Somebody wants a checkpoint."""

    cause: Cause
    asked: float
    name: str = ""
    full: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """How often checkpoints may be."""

    interval: float | None
    min_pause: float = 0.0
    max_concurrent: int = 1

    @property
    def period(self) -> float | None:
        """The interval, raised to the pause if that is longer."""
        return None if self.interval is None else max(self.interval, self.min_pause)


@dataclass(frozen=True, slots=True)
class Past:
    """What has happened so far, in seconds since 1970."""

    started: float
    last_trigger: float | None = None
    last_completion: float | None = None


@dataclass(frozen=True, slots=True)
class TriggerNow:
    """Trigger a checkpoint for this request."""

    request: Request


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing to do before that time; ``None``: until something happens."""

    time: float | None


def next_trigger(
    pace: Pace,
    past: Past,
    queue: list[Request],
    in_flight: int,
    now: float,
    *,
    uncommitted: bool = False,
) -> TriggerNow | WaitUntil:
    """Decide whether to trigger.

    0. Nothing while a sink has yet to commit an older checkpoint (``uncommitted``): a new one could
       only wait for that too, and would expire although nothing is wrong with the job.
    1. No more than ``max_concurrent`` are in flight, whoever asks.
    2. Final and user requests go first and ignore the pause.
    3. A periodic one comes an interval after the last trigger, and not before the last
       *completion* plus the pause.
    """
    if uncommitted or in_flight >= pace.max_concurrent:
        return WaitUntil(None)
    if queue:
        return TriggerNow(min(queue))
    if pace.period is None:
        return WaitUntil(None)
    due = (past.started if past.last_trigger is None else past.last_trigger) + pace.period
    if past.last_completion is not None:
        due = max(due, past.last_completion + pace.min_pause)
    return TriggerNow(Request(Cause.PERIODIC, now)) if now >= due else WaitUntil(due)
