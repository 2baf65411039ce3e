"""Parts of epochs sent by processes without Spark, which are killed at a step.

Each is a fork of one process that has loaded everything and talked to nobody: a death costs
milliseconds, not the start of Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from holdfast import steps
from holdfast.protocol.sent import Owner
from holdfast.sinks.kafka.client import Cluster
from holdfast.sinks.kafka.sending import PartOfEpoch, send_part
from holdfast.sinks.kafka.sink import KafkaSink
from holdfast.steps import step

ROOT = Path(__file__).parents[2]
SINK = "out"
Part = tuple[str, str, str, int, int, int]
"""Servers, topic, job, checkpoint, the first number and how many."""


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
    """The start of a job, and the commit of one epoch."""
    cluster = Cluster(servers, {"transaction.timeout.ms": 60_000})
    sink = KafkaSink(cluster, topic)
    with step("claim", SINK):
        sink.claim(job, SINK)
    owner = Owner(job, SINK)
    part = PartOfEpoch(f"holdfast-{job}-{SINK}", 0, owner, owner, checkpoint)
    with step("write", SINK):
        send_part(cluster, part, batches(first, count), topic)


@dataclass(frozen=True, slots=True)
class Mortals:
    """Processes that die."""

    parent: subprocess.Popen[str]

    def send_and_die(self, crash_at: str, part: Part) -> None:
        """Send in a process of its own, which must die at the step."""
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        print(json.dumps([crash_at, *part]), file=self.parent.stdin, flush=True)
        ended = self.parent.stdout.readline().strip()
        assert ended == "-9", f"{crash_at} was not reached: {ended}"


@contextmanager
def mortals() -> Iterator[Mortals]:
    """As long as this lasts processes can be made to die."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.services.kafka_parts"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        yield Mortals(parent)
        assert parent.stdin is not None
        parent.stdin.close()


def _serve() -> None:
    for line in sys.stdin:
        crash_at, *part = json.loads(line)
        child = os.fork()
        if child == 0:
            steps._wanted, _, steps._count = crash_at.partition("#")
            send(*part)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
