"""Kafka to Kafka by Flink's SQL, exactly once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.services.kafka_broker import KafkaBroker
from tests.services.processes import wait_until

from bench.flink_cluster import FlinkCluster, connector_jar, flink_cluster, flink_python
from bench.kafka_flink_sql import ANSWER
from bench.kafka_shapes import Shape
from bench.kafka_topics import PARTITIONS, place

Ends = Mapping[str, Mapping[int, int]]
_ENDED = {"FINISHED", "CANCELED", "FAILED"}
_SCRIPT = Path(__file__).with_name("kafka_flink_sql.py")


@dataclass(frozen=True, slots=True)
class Flink:
    """A cluster that is up, and a process that gives it SQL."""

    cluster: FlinkCluster
    submitter: subprocess.Popen[str]

    def run(
        self, broker: KafkaBroker, shape: Shape, topics: tuple[str, str], interval: str
    ) -> tuple[float, int]:
        """Seconds from the job's start until a reader sees the result of the last row.

        And how many checkpoints were completed by then.
        """
        with self.job(broker, shape, topics, interval, place(topics[0], shape.rows)) as job:
            seen = shape.wait(broker, topics[1], shape.rows)
            began: int = self.cluster.ask(f"/jobs/{job}")["timestamps"]["RUNNING"]
            done: int = self.cluster.ask(f"/jobs/{job}/checkpoints")["counts"]["completed"]
            return seen - began / 1000, done

    @contextmanager
    def job(
        self,
        broker: KafkaBroker,
        shape: Shape,
        topics: tuple[str, str],
        interval: str,
        end: Ends | None = None,
    ) -> Iterator[str]:
        """A job while it runs."""
        statements = list(_statements(broker, shape, topics, end))
        job = self._submit({"settings": self._settings(interval), "statements": statements})
        try:
            yield job
        finally:
            with suppress(HTTPError):  # it may have ended just now
                self.cluster.ask(f"/jobs/{job}?mode=cancel", "PATCH")
            wait_until(lambda: self._state(job) in _ENDED, "the Flink job has ended")

    def refuse_ended(self, job: str) -> None:
        """It must still run."""
        if (state := self._state(job)) in _ENDED:
            raise RuntimeError(f"the Flink job is {state}; see {self.cluster.home}")

    def _submit(self, order: dict[str, Any]) -> str:
        assert self.submitter.stdin is not None
        assert self.submitter.stdout is not None
        print(json.dumps(order), file=self.submitter.stdin, flush=True)
        for line in self.submitter.stdout:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER).strip()
        raise RuntimeError(f"Flink does not take the job; see {self.cluster.home}/submitter")

    def _settings(self, interval: str) -> dict[str, str]:
        return {
            **self.cluster.address,
            "pipeline.jars": connector_jar().as_uri(),
            "parallelism.default": str(PARTITIONS),
            "execution.checkpointing.interval": interval,
            "execution.checkpointing.dir": (self.cluster.home / "checkpoints").as_uri(),
            # Else each row of a count would put out one, where Spark puts out one for each batch.
            "table.exec.mini-batch.enabled": "true",
            "table.exec.mini-batch.allow-latency": "500 ms",
            "table.exec.mini-batch.size": "100000",
        }

    def _state(self, job: str) -> str:
        return str(self.cluster.ask(f"/jobs/{job}")["state"])


def _statements(
    broker: KafkaBroker, shape: Shape, topics: tuple[str, str], end: Ends | None
) -> Iterator[str]:
    source, target = topics
    raw = {
        "properties.bootstrap.servers": broker.servers,
        "key.format": "raw",
        "key.fields": "k",
        "value.format": "raw",
        "value.fields-include": "EXCEPT_KEY",
    }
    reading = {"connector": "kafka", "topic": source, "scan.startup.mode": "earliest-offset"}
    writing = {
        "connector": shape.connector,
        "topic": target,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": target,
        "properties.transaction.timeout.ms": "600000",  # brokers allow 15 minutes
    }
    key = ""
    if shape.connector == "upsert-kafka":  # it knows the key by the table's
        key = ", PRIMARY KEY (k) NOT ENFORCED"
        writing |= {n: v for n, v in raw.items() if n != "key.fields"}
    else:
        writing |= raw
    columns = "k STRING, v STRING"
    yield f"CREATE TABLE source ({columns}) WITH ({_with({**raw, **reading, **_bounds(end)})})"
    yield f"CREATE TABLE target ({columns}{key}) WITH ({_with(writing)})"
    yield f"INSERT INTO target {shape.sql}"


def _bounds(end: Ends | None) -> dict[str, str]:
    if end is None:
        return {}
    places = (f"partition:{p},offset:{at}" for ends in end.values() for p, at in ends.items())
    name = "scan.bounded.specific-offsets"
    return {"scan.bounded.mode": "specific-offsets", name: ";".join(places)}


def _with(options: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


@contextmanager
def flink() -> Iterator[Flink]:
    """A cluster with a slot for each partition, and the process; ``NoFlink`` if there is none."""
    connector_jar()
    with flink_cluster(PARTITIONS) as cluster, (cluster.home / "submitter").open("wb") as said:
        submitter = subprocess.Popen(
            [str(flink_python()), str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=cluster.environment,
            text=True,
        )
        try:
            yield Flink(cluster, submitter)
        finally:
            submitter.kill()
            submitter.communicate()
