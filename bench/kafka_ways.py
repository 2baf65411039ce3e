"""The ways from topic to topic, taking turns."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from tests.services.kafka_broker import KafkaBroker

from bench import kafka_spark
from bench.kafka_flink import Flink
from bench.kafka_latency import Latency, latency
from bench.kafka_shapes import MAP, Shape
from bench.kafka_topics import PARTITIONS, remove_topic
from bench.running import running

PLAIN, TUNED, JOB, FLINK = "plain Spark", "plain Spark, tuned", "Holdfast", "Flink"
NO_INTERVAL = ""
INTERVALS = ("1s", "5s", "10s")
PRODUCERS: Mapping[str, Mapping[str, str]] = {
    PLAIN: {},
    # What our own producers have.
    TUNED: {"kafka.batch.size": "1000000", "kafka.linger.ms": "20"},
}
"""Options of plain Spark's sink."""

Way = tuple[str, str]
"""Who, and the checkpoint interval. Plain Spark has none."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one run, or the medians of several."""

    rows_per_second: float
    checkpoints: float
    """Completed ones."""


@dataclass(frozen=True, slots=True)
class Ways:
    """What they share."""

    spark: SparkSession
    broker: KafkaBroker
    flink: Flink | None
    home: Path
    source: str

    def _all(self) -> list[Way]:
        by = [JOB] if self.flink is None else [JOB, FLINK]
        plain = [(who, NO_INTERVAL) for who in PRODUCERS]
        return [*plain, *((who, interval) for interval in INTERVALS for who in by)]

    # Rows per second

    def speeds(self, shape: Shape, rounds: int) -> dict[Way, Speed]:
        """Medians; a first round, in which each takes part only once, warms up.

        Every other round goes backwards: nobody always has the same one before it.
        """
        ways = self._all()
        warm_up = [(PLAIN, NO_INTERVAL), *(way for way in ways if way[1] == INTERVALS[0])]
        for way in warm_up:
            self._measured(shape, way)
        found: dict[Way, list[Speed]] = {way: [] for way in ways}
        for number in range(rounds):
            for way in ways[:: -1 if number % 2 else 1]:
                found[way].append(self._measured(shape, way))
        return {way: _median(speeds) for way, speeds in found.items()}

    def _measured(self, shape: Shape, way: Way) -> Speed:
        speed = self._speed(shape, way)
        told = f"{speed.rows_per_second:,.0f} rows/s, {speed.checkpoints} checkpoints"
        print(f"  {shape.name}: {' '.join(way)} {told}", flush=True)
        if way[0] not in PRODUCERS and speed.checkpoints < 1:
            raise AssertionError(f"{way} has shown rows without a checkpoint")
        return speed

    def _speed(self, shape: Shape, way: Way) -> Speed:
        who, interval = way
        with self._target() as (target, home):
            topics = (self.source, target)
            if who in PRODUCERS:
                taken = kafka_spark.run_plain(
                    self.spark, self.broker, shape, topics, home, PRODUCERS[who]
                )
                return Speed(shape.rows / taken, 0)
            if who == JOB:
                taken, checkpoints = kafka_spark.run_job(self.broker, shape, topics, home, interval)
            else:
                assert self.flink is not None
                taken, checkpoints = self.flink.run(self.broker, shape, topics, interval)
            shape.refuse_other(self.broker, target, shape.rows)
        return Speed(shape.rows / taken, checkpoints)

    @contextmanager
    def _target(self) -> Iterator[tuple[str, Path]]:
        """An empty topic and an empty directory, for as long as this lasts."""
        topic = self.broker.new_topic(PARTITIONS)
        home = self.home / topic
        home.mkdir()
        try:
            yield topic, home
        finally:
            remove_topic(self.broker, topic)
            shutil.rmtree(home, ignore_errors=True)

    # From arrival to sight

    def delays(self) -> dict[Way, Latency]:
        """Of each way, one after the other."""
        found: dict[Way, Latency] = {}
        for way in self._all():
            if way[0] != TUNED:  # it waits for more records, which do not come
                found[way] = self._delay(way)
                print(f"  latency: {' '.join(way)} {found[way]}", flush=True)
        return found

    def _delay(self, way: Way) -> Latency:
        who, interval = way
        source = self.broker.new_topic(PARTITIONS)
        with self._target() as (target, home):
            topics = (source, target)
            with self._copying(who, interval, topics, home) as refuse_dead:
                seconds = float(interval.removesuffix("s") or 0)
                return latency(self.broker, topics, seconds, refuse_dead)

    @contextmanager
    def _copying(
        self, who: str, interval: str, topics: tuple[str, str], home: Path
    ) -> Iterator[Callable[[], None]]:
        """While this lasts rows are copied; what it gives raises if that is over too early."""
        if who in PRODUCERS:
            with kafka_spark.plain(
                self.spark, self.broker, MAP, topics, home, PRODUCERS[who]
            ) as query:
                yield lambda: kafka_spark.refuse_dead(query)
        elif who == JOB:
            job = kafka_spark.declared(self.broker, MAP, topics)
            with running(job, home, kafka_spark.settings(interval)) as run:
                yield lambda: kafka_spark.refuse_failed(run)
        else:
            flink = self.flink
            assert flink is not None
            with flink.job(self.broker, MAP, topics, interval) as copying:
                yield lambda: flink.refuse_ended(copying)


def _median(speeds: list[Speed]) -> Speed:
    return Speed(
        statistics.median(each.rows_per_second for each in speeds),
        statistics.median(each.checkpoints for each in speeds),
    )
