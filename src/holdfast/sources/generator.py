"""A source that makes rows from their numbers: the same number always gives the same row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakSet

from holdfast.errors import UsageError
from holdfast.sources.pacing import Clock, GeneratorSteering, Pace, RealClock, decode_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def generator(
    *,
    rows: int | None = None,
    rows_per_second: float | None = None,
    rows_per_batch: int | None = None,
    partitions: int = 2,
    columns: Mapping[str, str] | None = None,
    start: int = 0,
) -> Generator:
    """Rows to try, test or measure a job with, made on the executors.

    Row ``n`` has ``value`` n and ``timestamp`` n milliseconds after 1970. ``columns`` replaces
    them by SQL expressions over them: ``{"app": "concat('app', value % 7)"}``. Expressions must
    depend on nothing else, as ``rand()`` would. With ``rows`` the source is bounded: it ends
    after that many, counted from row ``start``. The query goes on without rows: see ``finished``.
    """
    _require("rows", rows, at_least=0)
    _require("rows_per_batch", rows_per_batch, at_least=1)
    _require("partitions", partitions, at_least=1)
    _require("start", start, at_least=0)
    _require_rate(rows_per_second)
    if rows is None and rows_per_second is None and rows_per_batch is None:
        raise UsageError(
            "a generator without any limit would put all numbers into one batch",
            hint="Give rows, rows_per_second or rows_per_batch.",
        )
    behind = None if rows is None else start + rows
    pace = Pace(start, behind, rows_per_second, rows_per_batch)
    return Generator(pace, partitions, dict(columns or {}), RealClock())


class Generator:
    """Makes a streaming frame of a session, and the same rows as an ordinary frame."""

    def __init__(
        self, pace: Pace, partitions: int, columns: Mapping[str, str], clock: Clock
    ) -> None:
        self._pace = pace
        self._partitions = partitions
        self._columns = columns
        self._clock = clock
        self._live: WeakSet[GeneratorSteering] = WeakSet()

    @property
    def bounded(self) -> bool:
        """Whether the rows come to an end."""
        return self._pace.behind is not None

    def __call__(self, spark: SparkSession) -> DataFrame:
        """A streaming frame with its own pace."""
        return self._open(spark, GeneratorSteering(self._pace, self._clock))

    def beside_others(self, spark: SparkSession) -> DataFrame:
        """The same for a query with other inputs, which must not wait for this one."""
        return self._open(spark, GeneratorSteering(self._pace, self._clock, longest_wait=0.0))

    def _open(self, spark: SparkSession, steering: GeneratorSteering) -> DataFrame:
        from holdfast.spark.streams import range_stream

        self._live.add(steering)
        return self._shaped(range_stream(spark, steering, "generator", self._partitions))

    def batch(self, spark: SparkSession, start: int, end: int) -> DataFrame:
        """Rows ``start`` to ``end - 1`` without streaming, to recount what a query has read."""
        from pyspark.sql import functions as sf

        rows = spark.range(start, end, 1, self._partitions).withColumnRenamed("id", "value")
        return self._shaped(rows.withColumn("timestamp", sf.timestamp_millis("value")))

    def _shaped(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as sf

        if not self._columns:
            return rows
        return rows.select(*(sf.expr(sql).alias(name) for name, sql in self._columns.items()))

    def finished(self, offset: str) -> bool:
        """Whether a query that has read up to ``offset`` has read everything."""
        return self._pace.behind is not None and decode_row(offset) >= self._pace.behind

    def stop(self) -> None:
        """Let queries that wait for rows answer at once, because they are about to be stopped.

        Frames made so far will not wait again, frames made later will.
        """
        for steering in list(self._live):
            steering.stop()


def _require(name: str, value: int | None, *, at_least: int) -> None:
    if value is not None and value < at_least:
        raise UsageError(f"{name} must be at least {at_least}", given=value)


def _require_rate(rate: float | None) -> None:
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise UsageError("rows_per_second must be a number above zero", given=rate)
