"""Jobs that read Kafka, in the test's own Spark, and what came of them."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import holdfast as hf
from holdfast.protocol.records import FailureRecord
from tests.services.kafka_broker import KafkaBroker
from tests.spark.jobs import Live, passed, running
from tests.spark.taps import until

# It would restart for ever.
_STUBBORN: dict[str, object] = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "infinite",
    "restart-strategy.fixed-delay.delay": "1ms",
}
# Spark looks three times, a second apart, whether offsets have really gone down.
_IMPATIENT = {"fetchOffset.retryIntervalMs": "10"}


class Shelf:
    """A plain sink that keeps the values of each batch; one that comes again replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}
        self._open = threading.Event()
        self._open.set()

    def __call__(self, rows: Any, batch: int) -> None:
        found = [int(bytes(row["value"])) for row in rows.select("value").collect()]
        assert self._open.wait(60)
        self.batches[batch] = found

    @property
    def values(self) -> list[int]:
        """Of all batches."""
        return sorted(value for values in self.batches.values() for value in values)

    def hold(self) -> None:
        """Let no batch end."""
        self._open.clear()

    def let(self) -> None:
        """Go on."""
        self._open.set()


@dataclass(frozen=True)
class Failed:
    """How a job ended."""

    error: str
    records: list[FailureRecord]

    @property
    def last(self) -> FailureRecord:
        """What ended it."""
        return self.records[-1]


@dataclass(frozen=True)
class Place:
    """A broker, and a directory for one job."""

    broker: KafkaBroker
    folder: Path

    def source(self, topic: str | None, **options: Any) -> Any:
        """Ours."""
        more = {**_IMPATIENT, **options.pop("options", {})}
        return hf.sources.kafka(self.broker.servers, topic, **options, options=more)

    def plain(self, topic: str, **options: str) -> Any:
        """As people open Kafka without Holdfast."""
        chosen = {
            "kafka.bootstrap.servers": self.broker.servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **_IMPATIENT,
            **options,
        }

        def open_it(spark: SparkSession) -> Any:
            return spark.readStream.format("kafka").options(**chosen).load()

        return open_it

    def run(self, job: hf.Job, **options: object) -> AbstractContextManager[Live]:
        """A job that is not given up by its strategy."""
        return running(job, self.folder, **{**_STUBBORN, **options})

    def run_to_end(self, job: hf.Job, **options: object) -> None:
        """One whose input ends."""
        with self.run(job, **options) as live:
            assert live.until_over() == "FINISHED"

    def run_until(self, job: hf.Job, shelf: Shelf, values: range) -> None:
        """Run a job until it has read just these, then stop it."""
        with self.run(job) as live:
            live.until(lambda: shelf.values == list(values))
            live.until(lambda: live.committed("rows") == max(shelf.batches))

    def fail(self, job: hf.Job) -> Failed:
        """Run a job that fails."""
        with self.run(job) as live:
            until(lambda: live.running.state.is_over, live.describe)
            assert live.state == "FAILED"
            return Failed(str(live.running.failure), list(live.running.failures.all()))


def job_of(shelf: Shelf, *sources: Any) -> hf.Job:
    """One region that reads all of these."""
    job = hf.Job("job")
    uids = [f"source-{number}" for number in range(len(sources))]
    for uid, source in zip(uids, sources, strict=True):
        job.source(uid, source)
    job.region("rows", reads=uids)(passed)
    job.sink("shelf", "rows", hf.sinks.foreach_batch(shelf))
    return job
