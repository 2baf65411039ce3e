"""The same kills for plain Spark and for a job, both from Kafka to Kafka: rows lost and repeated.

Both are killed again and again, each time as soon as new records are in the topic or a little
later; then a reader of committed records counts. ``python -m bench.contrast_kafka`` does only this.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.services.kafka_broker import KafkaBroker, kafka_broker
from tests.services.kafka_connector import connector_jars
from tests.services.kafka_reading import Arrivals, everything, values
from tests.services.kafka_writing import send

import holdfast as hf
from bench.contrast import Outcome
from holdfast.server.processes import session

ROWS = 20_000
PER_BATCH = 500
KILLS = 5
SEED = 1
LATEST = 0.6
"""Seconds after the first new record: plain Spark has written its batch by then, or nearly so."""
ROOT = Path(__file__).parents[1]
_GLANCE = 0.002
_PATIENCE = 180.0


@dataclass(frozen=True, slots=True)
class Topics:
    """What a process is told."""

    servers: str
    source: str
    target: str


def plain(home: Path, topics: Topics) -> None:
    """As Spark's documentation has it."""
    from holdfast.spark.session import local_session

    jars = ",".join(map(str, connector_jars()))
    spark = local_session("contrast", **{"spark.master": "local[2]", "spark.jars": jars})
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", topics.servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topics.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", PER_BATCH)
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", topics.servers)
        .option("topic", topics.target)
        .option("checkpointLocation", str(home / "log"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def job(home: Path, topics: Topics) -> None:
    """The same as a job."""
    made = hf.Job(
        "contrast",
        settings={
            "holdfast.work.dir": str(home / "work"),
            "holdfast.spark.master": "local[2]",
            "execution.checkpointing.interval": "1s",
            "spark.jars": ",".join(map(str, connector_jars())),
        },
    )
    source = hf.sources.kafka(topics.servers, topics.source, max_per_batch=PER_BATCH, end="latest")

    @made.region("rows", reads=made.source("in", source))
    def rows(found):  # type: ignore[no-untyped-def]
        return found.select("key", "value")

    made.sink("out", rows, hf.sinks.kafka(topics.servers, topics.target))
    outcome = made.run()
    if outcome.failure is not None:
        raise outcome.failure


def measure() -> dict[str, Outcome]:
    """Both, under the same kills."""
    print("killing plain Spark and a job …", flush=True)
    dice = random.Random(SEED)
    delays = [dice.uniform(0, LATEST) for _ in range(KILLS)]
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-contrast-") as scratch,
        kafka_broker() as broker,
    ):
        source = broker.new_topic()
        send(broker, source, range(ROWS))
        return {
            kind: _killed(kind, Path(scratch) / kind, broker, source, delays)
            for kind in ("plain", "job")
        }


def _killed(
    kind: str, home: Path, broker: KafkaBroker, source: str, delays: Sequence[float]
) -> Outcome:
    home.mkdir()
    topics = Topics(broker.servers, source, broker.new_topic())
    arrivals = Arrivals(broker.servers, topics.target)
    for delay in delays:
        process = _start(kind, home, topics)
        try:
            _wait_for_more(arrivals, process, home)
            time.sleep(delay)
        finally:
            _kill(process)
    last = _start(kind, home, topics)
    try:
        if last.wait(_PATIENCE) != 0:
            raise RuntimeError(f"{kind} failed:\n{_said(home)}")
    finally:
        _kill(last)
    seen = values(broker.servers, topics.target)
    sent = len(everything(broker.servers, topics.target))
    print(f"{kind}: {len(seen)} rows visible, {sent} sent", flush=True)
    return Outcome(len(delays), ROWS - len(set(seen)), len(seen) - len(set(seen)))


def _wait_for_more(arrivals: Arrivals, process: subprocess.Popen[bytes], home: Path) -> None:
    before, deadline = arrivals.end(), time.monotonic() + _PATIENCE
    while arrivals.end() == before:
        if process.poll() is not None:
            raise RuntimeError(f"it has ended before it was killed:\n{_said(home)}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no new records within {_PATIENCE:.0f} s:\n{_said(home)}")
        time.sleep(_GLANCE)


def _start(kind: str, home: Path, topics: Topics) -> subprocess.Popen[bytes]:
    words = [topics.servers, topics.source, topics.target]
    with (home / "said.txt").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "bench.contrast_kafka", kind, str(home), *words],
            cwd=ROOT,
            env={**os.environ, "HOLDFAST_HOME": str(home / "home"), "TMPDIR": str(home)},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def _said(home: Path) -> str:
    return (home / "said.txt").read_text()[-3000:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Everything of it, also those that run tasks."""
    while left := session(process.pid):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.poll()
    process.wait()


def main() -> None:
    """One of the two in this process, or both, killed."""
    if len(sys.argv) == 1:
        for kind, outcome in measure().items():
            print(f"{kind}: {outcome}", flush=True)
        return
    kind, home, *words = sys.argv[1:]
    {"plain": plain, "job": job}[kind](Path(home), Topics(*words))


if __name__ == "__main__":
    main()
