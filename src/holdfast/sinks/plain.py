"""Sinks without transactions: at least once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ForeachBatchSink:
    """Gives each batch to a function; the last batch may come again after a crash."""

    function: Callable[[Any, int], object]

    def write(self, rows: Any, batch: int) -> None:
        """Take the rows of one batch."""
        self.function(rows, batch)


def foreach_batch(function: Callable[[Any, int], object]) -> ForeachBatchSink:
    """A function of (DataFrame, batch id), as in Spark. At least once."""
    return ForeachBatchSink(function)


def console(rows: int = 20, truncate: bool = False) -> ForeachBatchSink:
    """Print the first rows of every batch. At least once."""

    def show(frame: Any, batch: int) -> None:
        print(f"batch {batch}")
        # ``show`` alone would leave partitions out, and a query with state must compute them all.
        kept_by_others = frame.is_cached
        frame.persist().count()
        frame.show(rows, truncate)
        if not kept_by_others:
            frame.unpersist()

    return ForeachBatchSink(show)
