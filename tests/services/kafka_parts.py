"""One part of an epoch sent by a process without Spark, to be killed at a step.

``python -m tests.services.kafka_parts SERVERS TOPIC JOB CHECKPOINT FIRST COUNT`` claims the names
as a job does that starts, then sends the rows of one epoch as its task does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from holdfast.sinks.kafka.client import Cluster
from holdfast.sinks.kafka.sending import PartOfEpoch, send_part
from holdfast.sinks.kafka.sink import KafkaSink
from holdfast.steps import step

ROOT = Path(__file__).parents[2]
SINK = "out"


def batches(first: int, count: int) -> list[pa.RecordBatch]:
    """Rows with a number as value, in two pieces."""
    numbers = list(range(first, first + count))
    halves = numbers[: count // 2], numbers[count // 2 :]
    return [
        pa.RecordBatch.from_pydict(
            {"key": [str(n % 3) for n in half], "value": [str(n) for n in half]}
        )
        for half in halves
    ]


def send(servers: str, topic: str, job: str, checkpoint: int, first: int, count: int) -> None:
    """A start, and the commit of one epoch."""
    cluster = Cluster(servers, {"transaction.timeout.ms": 60_000})
    sink = KafkaSink(cluster, topic)
    with step("claim", SINK):
        sink.claim(job, SINK)
    part = PartOfEpoch(f"holdfast-{job}-{SINK}", 0, job, job, SINK, checkpoint)
    with step("write", SINK):
        send_part(cluster, part, batches(first, count), topic)


def send_and_die(crash_at: str, *arguments: object) -> None:
    """Do it in a process that must die at the step."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.kafka_parts", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "HOLDFAST_CRASH_AT": crash_at},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == -9, f"{crash_at} was not reached:\n{done.stderr}"


if __name__ == "__main__":
    given = sys.argv[1:]
    send(given[0], given[1], given[2], *map(int, given[3:]))
