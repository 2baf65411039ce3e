"""Both ends of a job in the test's hand: sources that give rows when told to, and sinks that hold
their region still."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from holdfast.sources.pacing import decode_row, encode_row
from holdfast.spark.streams import range_stream

PATIENCE = 90.0


def until(condition: Callable[[], Any], where: Callable[[], object] = str) -> None:
    """Wait for a condition; ``where`` tells how things stand if it does not come true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited too long {where()}"
        time.sleep(0.01)


class Tap:
    """A source of numbered rows that come when the test gives them; each gift is one batch.

    A query over it has no batch before the first gift.
    """

    bounded = True

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.ends: list[int] = []
        self.questions = 0
        self._over = False
        self._live: WeakSet[_Steering] = WeakSet()

    @property
    def given(self) -> int:
        """How many rows there are by now."""
        return self.ends[-1] if self.ends else 0

    def give(self, rows: int, times: int = 1) -> None:
        with self.changed:
            for _ in range(times):
                self.ends.append(self.given + rows)
            self.changed.notify_all()

    def end(self, rows: int) -> None:
        """Give the last rows."""
        with self.changed:
            self._over = True
            self.give(rows)

    def __call__(self, spark: Any) -> Any:
        steering = _Steering(self)
        self._live.add(steering)
        return range_stream(spark, steering, "tap", 2).selectExpr("value AS n")

    def finished(self, offset: str) -> bool:
        return self._over and decode_row(offset) >= self.given

    def stop(self) -> None:
        with self.changed:
            for steering in list(self._live):
                steering.stopped = True
            self.changed.notify_all()


class _Steering:
    """Steers one frame of a tap; a ``RangeSteering``."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self.stopped = False

    def initial(self) -> str:
        return encode_row(0)

    def latest(self, start: str | None) -> str:
        tap, position = self._tap, 0 if start is None else decode_row(start)
        with tap.changed:
            tap.questions += 1
            # Spark would make a batch of the first answer, with rows or without.
            seconds = 0.2 if position else None
            tap.changed.wait_for(lambda: tap.given > position or self.stopped, seconds)
            return encode_row(next((end for end in tap.ends if end > position), position))

    def newest(self) -> str:
        return encode_row(self._tap.given)

    def committed(self, end: str) -> None:
        pass

    def rows(self, start: str, end: str) -> tuple[int, int]:
        return decode_row(start), decode_row(end)


class Broken(Exception):
    """What a latch fails a batch with."""


class Latch:
    """A plain sink that holds the batches of its region, on the driver, until it is told."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._allowed: float = float("inf")
        self._broken = False
        self.held: int | None = None
        """The batch that waits."""

    def hold(self) -> None:
        with self._changed:
            self._allowed = 0

    def let(self, batches: float = float("inf")) -> None:
        with self._changed:
            self._allowed += batches
            self._changed.notify_all()

    def fail(self) -> None:
        """The batch that waits fails, as if the process had died in it."""
        with self._changed:
            self._broken = True
            self._changed.notify_all()

    def mend(self) -> None:
        """Let batches pass again."""
        with self._changed:
            self._broken = False
            self._allowed = float("inf")

    def __call__(self, rows: Any, batch: int) -> None:
        drained(rows, batch)
        with self._changed:
            self.held = batch
            self._changed.wait_for(lambda: self._allowed > 0 or self._broken)
            self.held = None
            self._allowed -= 1
            if self._broken:
                raise Broken("the latch was told to fail")


def drained(rows: Any, batch: int) -> None:
    """A sink that reads every row, as a query with state must, and keeps none."""
    rows.write.format("noop").mode("append").save()
