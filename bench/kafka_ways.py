"""The ways from topic to topic, taking turns."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from tests.services.kafka_broker import KafkaBroker

from bench import kafka_spark
from bench.kafka_flink import Flink
from bench.kafka_latency import Latency, latency
from bench.kafka_shapes import MAP, Shape
from bench.kafka_topics import PARTITIONS, refuse_other_count, remove_topic
from bench.running import running

PLAIN, JOB, FLINK = "plain Spark", "Holdfast", "Flink"
LENGTHS = {"1s": 1.0, "5s": 1.5, "10s": 2.0}
"""By checkpoint interval, how much there is to do: each is to take more than one checkpoint."""

Way = tuple[str, str]
"""Who, and the checkpoint interval. Plain Spark has none, and gets as many rows as the others."""


@dataclass(frozen=True, slots=True)
class Ways:
    """What they share."""

    spark: SparkSession
    broker: KafkaBroker
    flink: Flink | None
    home: Path
    source: str

    def _all(self) -> list[Way]:
        by = [PLAIN, JOB] if self.flink is None else [PLAIN, JOB, FLINK]
        return [(who, interval) for interval in LENGTHS for who in by]

    # Rows per second

    def speeds(self, shape: Shape, rounds: int) -> dict[Way, float]:
        """Medians; a first round, in which only the shortest take part, warms up."""
        found: dict[Way, list[float]] = {way: [] for way in self._all()}
        for number in range(rounds + 1):
            for way in found:
                if number or way[1] == "1s":
                    speed = self._speed(shape, way)
                    print(f"  {shape.name}: {' '.join(way)} {speed:,.0f} rows/s", flush=True)
                    found[way] += [speed] if number else []
        return {way: statistics.median(speeds) for way, speeds in found.items()}

    def _speed(self, shape: Shape, way: Way) -> float:
        who, interval = way
        rows = int(shape.rows * LENGTHS[interval])
        with self._target() as (target, home):
            topics = (self.source, target)
            if who == PLAIN:
                taken = kafka_spark.run_plain(self.spark, self.broker, shape, topics, home, rows)
            elif who == JOB:
                taken = kafka_spark.run_job(self.broker, shape, topics, home, interval, rows)
            else:
                assert self.flink is not None
                taken = self.flink.run(self.broker, shape, topics, interval, rows)
            if who != PLAIN and shape is MAP:
                refuse_other_count(self.broker, target, rows)
        return rows / taken

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
        """Of each way, one after the other; of plain Spark once."""
        found: dict[Way, Latency] = {}
        for way in self._all():
            if way[0] == PLAIN and found:
                continue
            found[way] = self._delay(way)
            print(f"  latency: {' '.join(way)} {found[way]}", flush=True)
        return found

    def _delay(self, way: Way) -> Latency:
        who, interval = way
        source = self.broker.new_topic(PARTITIONS)
        with self._target() as (target, home):
            topics = (source, target)
            with self._copying(who, interval, topics, home):
                return latency(self.broker, topics, float(interval.removesuffix("s") or 0))

    @contextmanager
    def _copying(
        self, who: str, interval: str, topics: tuple[str, str], home: Path
    ) -> Iterator[None]:
        if who == PLAIN:
            query = kafka_spark.start_plain(self.spark, self.broker, MAP, topics, home)
            yield
            query.stop()
        elif who == JOB:
            job = kafka_spark.declared(self.broker, MAP, topics)
            with running(job, home, kafka_spark.settings(interval)):
                yield
        else:
            assert self.flink is not None
            with self.flink.job(self.broker, MAP, topics, interval):
                yield
