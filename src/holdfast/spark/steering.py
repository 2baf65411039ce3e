"""What Python decides about a streaming source: how far to read, and what that means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file as executors will open it."""

    location: str
    """As Hadoop reads it: an absolute path or a URI, not escaped."""

    size: int
    """In bytes; work is shared out by it."""


class Steering(Protocol):
    """Answers Spark's questions about a source, on the driver, in the query's own thread.

    Rules for every implementation:

    1. Offsets are JSON texts of one line. Spark compares them as texts: the same position must
       always be written the same way, or Spark runs an empty batch for it.
    2. What lies between two offsets never changes: after a crash Spark asks for it again.
    3. An exception fails the query, with the traceback in its message.
    4. Stopping a query waits for the answer. Whoever stops one must first make a waiting
       ``latest`` answer, for Spark's interrupt does not reach Python.
    5. If the same frame is used twice in a query, or in two, all of them ask the same steering.
    6. A query with ``trigger(availableNow=True)`` asks ``latest`` once and ends after that batch.
    """

    def initial(self) -> str:
        """Where a query without a log begins."""

    def latest(self, start: str | None) -> str:
        """How far the next batch may read; may block until there is something to say.

        Answering ``start`` means that there is nothing new.
        """

    def newest(self) -> str:
        """How far the source reaches, for Spark's progress report."""

    def committed(self, end: str) -> None:
        """Nothing before ``end`` will be asked for again. Comes late, and may come twice."""


class FileSteering(Steering, Protocol):
    """Steers a source made of Parquet files."""

    def files(self, start: str, end: str) -> Sequence[DataFile]:
        """The files with the rows after ``start``, up to and with ``end``."""


class RangeSteering(Steering, Protocol):
    """Steers a source of numbered rows."""

    def rows(self, start: str, end: str) -> tuple[int, int]:
        """The first row number, and the one behind the last."""
