"""How far a generator may read, and when to let Spark wait."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from threading import Condition
from typing import Protocol

from holdfast.errors import UsageError

LONGEST_WAIT = 1.0
"""Seconds after which Spark is told "nothing new", so that it can look after its query."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Which rows there are and how fast they come. ``None`` means without limit."""

    first: int
    behind: int | None
    per_second: float | None
    per_batch: int | None


class Clock(Protocol):
    """Time, as the generator sees it."""

    def now(self) -> float:
        """Seconds since some moment."""

    def wait(self, changed: Condition, seconds: float) -> None:
        """Let time pass until ``changed`` is notified, but not longer."""


class RealClock:
    """Time as it passes."""

    def now(self) -> float:
        """Seconds since the machine started."""
        return time.monotonic()

    def wait(self, changed: Condition, seconds: float) -> None:
        """Sleep unless notified."""
        changed.wait(seconds)


class GeneratorSteering:
    """Steers one streaming frame of a generator; a ``RangeSteering``.

    The rate counts from the first question on, so a query that comes back after a pause does not
    find the pause's rows. Right after a batch "nothing new" is answered at once: Spark may want
    to run a batch without data to move its watermark. Only when asked again does it wait.
    """

    def __init__(self, pace: Pace, clock: Clock, longest_wait: float = LONGEST_WAIT) -> None:
        self._pace = pace
        self._clock = clock
        self._longest_wait = longest_wait
        self._changed = Condition()
        self._began: tuple[float, int] | None = None
        self._reported = pace.first
        self._said_nothing_new = False
        self._stopped = False

    def initial(self) -> str:
        """The first row."""
        return encode_row(self._pace.first)

    def latest(self, start: str | None) -> str:
        """The end of the next batch; waits a little if that would be empty again."""
        position = self._pace.first if start is None else decode_row(start)
        with self._changed:
            if self._began is None:
                self._began = self._clock.now(), position
            if self._said_nothing_new:
                self._wait_for_row(position)
            end = self._end_of_batch(position)
            self._said_nothing_new = end == position
            self._reported = end
            return encode_row(end)

    def _wait_for_row(self, position: int) -> None:
        deadline = self._clock.now() + self._longest_wait
        while not self._stopped and self._end_of_batch(position) == position:
            left = deadline - self._clock.now()
            if left <= 0:
                return
            self._clock.wait(self._changed, min(left, self._seconds_until(position + 1)))

    def _end_of_batch(self, position: int) -> int:
        reachable = self._reachable()
        if reachable is None:
            return position + (self._pace.per_batch or 0)
        if self._pace.per_batch is not None:
            reachable = min(reachable, position + self._pace.per_batch)
        return max(position, reachable)

    def _reachable(self) -> int | None:
        """The row behind the last that exists by now; ``None`` if there is no end to them."""
        ends = [self._pace.behind, self._made_by_now()]
        return min((end for end in ends if end is not None), default=None)

    def _made_by_now(self) -> int | None:
        if self._pace.per_second is None or self._began is None:
            return None
        moment, row = self._began
        return row + math.floor((self._clock.now() - moment) * self._pace.per_second)

    def _seconds_until(self, behind: int) -> float:
        """How long until the row before ``behind`` is made; for ever, if it never will be."""
        if self._pace.per_second is None or self._began is None:
            return math.inf
        if self._pace.behind is not None and self._pace.behind < behind:
            return math.inf
        moment, row = self._began
        due = moment + (behind - row) / self._pace.per_second
        # Rounding may put the moment a trifle too early; never wait for nothing at all.
        return max(due - self._clock.now(), 0.001)

    def newest(self) -> str:
        """The row behind the last that exists by now."""
        with self._changed:
            reachable = self._reachable()
            return encode_row(self._reported if reachable is None else reachable)

    def committed(self, end: str) -> None:
        """Nothing to clean up: rows are made from their numbers."""

    def rows(self, start: str, end: str) -> tuple[int, int]:
        """The row numbers of a batch."""
        return decode_row(start), decode_row(end)

    def stop(self) -> None:
        """Answer a waiting question now, and never wait again."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def encode_row(row: int) -> str:
    """The offset of a row."""
    return json.dumps({"row": row})


def decode_row(offset: str) -> int:
    """The row of an offset."""
    try:
        row = json.loads(offset)["row"]
    except (ValueError, TypeError, KeyError):
        row = None
    if not isinstance(row, int):
        raise UsageError(
            "this is not an offset of a generator",
            hint='It looks like {"row": 42}. Was the query log written by another source?',
            offset=offset,
        )
    return row
