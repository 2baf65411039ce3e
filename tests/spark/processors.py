"""User code of the stateful workloads. Spark's Python workers import this module."""
# ruff: noqa: N802, N803 - Spark names the methods

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

PATIENCE_MS = 25_000
HOUR_MS = 3_600_000

COUNTED = "k string, what string, count long, listed long, mapped long"

_COUNT = StructType([StructField("count", LongType())])
_VALUE = StructType([StructField("v", LongType())])
_PARITY = StructType([StructField("parity", StringType())])


def count_until_quiet(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Any:
    """Count rows per key for applyInPandasWithState; forget a key that stays away."""
    if state.hasTimedOut:
        (count,) = state.get
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "what": ["quiet"], "count": [count]})
        return
    count, newest = state.get[0] if state.exists else 0, 0
    for frame in frames:
        count += len(frame)
        newest = max(newest, int(frame["at"].max()))
    state.update((count,))
    state.setTimeoutTimestamp(newest + PATIENCE_MS)
    yield pd.DataFrame({"k": [key[0]], "what": ["seen"], "count": [count]})


class CountUntilQuiet(StatefulProcessor):
    """A value, a list, a map and one event-time timer per key; the timer clears the key."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", _COUNT)
        self.listed = handle.getListState("listed", _VALUE)
        self.mapped = handle.getMapState("mapped", _PARITY, _VALUE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        newest = max(_keep(self, row) for row in rows)
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(newest + PATIENCE_MS)
        yield _report(self, key, "seen")

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        yield _report(self, key, "quiet")
        self.count.clear()
        self.listed.clear()
        self.mapped.clear()

    def close(self) -> None:
        pass


class CountForAnHour(StatefulProcessor):
    """The same three variables with a time to live."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", _COUNT, HOUR_MS)
        self.listed = handle.getListState("listed", _VALUE, HOUR_MS)
        self.mapped = handle.getMapState("mapped", _PARITY, _VALUE, HOUR_MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            _keep(self, row)
        yield _report(self, key, "seen")

    def close(self) -> None:
        pass


def parity(v: int) -> str:
    """Of the tens: every value of the input is a multiple of five."""
    return "odd" if v // 10 % 2 else "even"


def _keep(variables: Any, row: Row) -> int:
    count = variables.count.get()[0] if variables.count.exists() else 0
    variables.count.update((count + 1,))
    variables.listed.appendValue((row.v,))
    entry = (parity(row.v),)
    # The largest, not the latest: Spark promises no order within a batch.
    known = variables.mapped.getValue(entry)[0] if variables.mapped.containsKey(entry) else 0
    variables.mapped.updateValue(entry, (max(row.v, known),))
    return int(row.at)


def _report(variables: Any, key: Any, what: str) -> Row:
    (count,) = variables.count.get()
    listed = sum(v for (v,) in variables.listed.get())
    mapped = sum(v for _, (v,) in variables.mapped.iterator())
    return Row(k=key[0], what=what, count=count, listed=listed, mapped=mapped)
