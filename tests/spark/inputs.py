"""Six input files that give every stateful operator something to do.

File ``n`` covers seconds ``30n`` to ``30n + 20``. With a delay of ten seconds the watermark after
it is ``30n + 10``, so each file closes what the file before it opened. Every row is either clearly
in time or clearly late, two files late. Between those two Spark's answer depends on whether a batch
without data ran before the row came, which a stop and a resume may change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

SCHEMA = "k string, v long, ts timestamp"
WATERMARK = "10 seconds"
FILES = 6


def watermark_after(n: int) -> int:
    """The watermark, in seconds since the start, when file ``n`` has been read."""
    return 30 * n + 10


_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """One input row; ``second`` counts from the start of the input."""

    k: str
    v: int
    second: int

    def to_json(self) -> str:
        ts = _START + timedelta(seconds=self.second)
        return json.dumps({"k": self.k, "v": self.v, "ts": ts.strftime("%Y-%m-%dT%H:%M:%SZ")})

    @property
    def millis(self) -> int:
        return int((_START + timedelta(seconds=self.second)).timestamp() * 1000)

    @property
    def late(self) -> bool:
        return self.k == "late"


def left_events(n: int) -> Iterator[Event]:
    """File ``n`` of the only stream, or of a join's left side."""
    begin = 30 * n
    for key in ("steady", "ключ"):
        for offset in (0, 10, 20):
            yield Event(key, 100 * n + offset, begin + offset)
    # Comes back after three files: long enough for a session, a timeout and a timer to end first.
    for offset in (0, 5):
        yield Event(f"third-{n % 3}", 100 * n + 50 + offset, begin + offset)
    yield Event(f"once-{n}", 100 * n + 60, begin + 3)
    yield Event(f"once-{n}", 100 * n + 60, begin + 3)
    if n >= 1:  # sent again: a duplicate, and a late addition to a window that is still open
        yield Event("steady", 100 * (n - 1) + 20, begin - 10)
    if n >= 2:
        yield Event("late", 100 * n + 70, begin - 85)


def right_events(n: int) -> Iterator[Event]:
    """File ``n`` of a join's right side."""
    begin = 30 * n
    yield Event("steady", 1000 + 100 * n, begin + 5)
    yield Event("ключ", 1000 + 100 * n, begin)  # joins the end of the file before
    yield Event("ключ", 1000 + 100 * n + 15, begin + 15)
    if n % 2 == 0:
        yield Event(f"third-{n % 3}", 1000 + 100 * n + 50, begin + 10)
    yield Event(f"right-{n}", 1000 + 100 * n + 60, begin + 20)
    if n >= 2:
        yield Event("late", 1000 + 100 * n + 70, begin - 85)


@dataclass(frozen=True)
class Inputs:
    """The input directories of one query. Files arrive in order and never change."""

    root: Path

    @property
    def left(self) -> Path:
        return self.root / "left"

    @property
    def right(self) -> Path:
        return self.root / "right"

    def deliver(self, files: range) -> None:
        for n in files:
            _write(self.left, n, left_events(n))
            _write(self.right, n, right_events(n))


def _write(directory: Path, n: int, events: Iterator[Event]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{n}.json"
    path.write_text("".join(event.to_json() + "\n" for event in events))
    # The file source orders by modification time.
    arrived = (_START + timedelta(minutes=n)).timestamp()
    os.utime(path, (arrived, arrived))
