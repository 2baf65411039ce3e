"""A Kafka sink dies at every step of its protocol, and again in the recovery.

An independent reader of committed records is the judge: nothing twice, nothing of an epoch without
the rest of it, and in the end every row once. Kafka's own tool must find no transaction open.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkpoints.metadata import CheckpointMetadata
from tests.faults.jobs.process import ROOT, JobProcess
from tests.services.kafka_broker import KafkaBroker
from tests.services.kafka_parts import Mortals, Part, mortals, send
from tests.services.kafka_reading import everything, in_time, settle, values
from tests.services.processes import wait_until

# One part of an epoch, without Spark

POINTS = [
    "claim:before",
    "claim:after",
    "fence:after",
    "begin:before",
    "begin:after",
    "invoke:after",
    "invoke:after#2",
    "prepare:after",
    "part:after",
]
"""In their order. Between two that follow each other at once there is only one of them."""
COUNT = 6


def test_a_writer_that_dies_at_any_step_and_again_in_the_recovery_sends_every_row_once(
    kafka: KafkaBroker,
) -> None:
    topic, job = kafka.new_topic(), "a1" * 16
    again = itertools.cycle(POINTS[4:] + POINTS[:4])
    expected: list[str] = []
    with mortals() as dying:
        for checkpoint, point in enumerate(POINTS, 1):
            first = 100 * checkpoint
            rows = [str(number) for number in range(first, first + COUNT)]
            part = (kafka.servers, topic, job, checkpoint, first, COUNT)
            dying.send_and_die(point, part)
            whole_epochs(kafka, topic, expected, rows, point)
            die_again(dying, kafka, part, next(again))
            whole_epochs(kafka, topic, expected, rows, f"{point}, then in the recovery")
            send(*part)
            expected += rows
            settle(kafka.servers, topic)
            assert values(kafka.servers, topic) == expected, point
    assert_nothing_open(kafka, job)
    seen = Counter(record.value for record in everything(kafka.servers, topic))
    assert any(times > 1 for times in seen.values()), "no transaction was ever aborted"


def die_again(dying: Mortals, kafka: KafkaBroker, part: Part, point: str) -> None:
    """Steps behind the look at the markers are not reached if the epoch is found there."""
    is_sent = str(part[4]) in values(kafka.servers, part[1])
    behind = ("begin", "invoke", "prepare", "part")
    dying.send_and_die("fence:after" if is_sent and point.startswith(behind) else point, part)


def whole_epochs(
    kafka: KafkaBroker, topic: str, expected: list[str], rows: list[str], when: str
) -> None:
    seen = values(kafka.servers, topic)
    assert seen in (expected, expected + rows), when


def assert_nothing_open(kafka: KafkaBroker, job_id: str) -> None:
    """Of this job: others may have left something."""

    def states() -> set[str]:
        found = {state for name, state in kafka.transactions().items() if job_id in name}
        assert found, "the tool lists nothing"
        return found

    ended = {"CompleteCommit", "CompleteAbort", "Empty"}
    # What was decided is done a moment later.
    wait_until(lambda: states() <= ended, f"the transactions of {job_id} have ended", 20)


# Whole jobs


@dataclass(frozen=True)
class KafkaJob:
    """One source, one region, one Kafka sink: rows have their number as value."""

    servers: str
    topic: str
    rows: int = 60_000
    rows_per_second: float = 1500
    parallelism: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


JOB_POINTS = {
    "precommit/out:after": None,
    "begin/out:before": "claim/out:after",
    "invoke/out:after": "prepare/out:after",
    "part/out:after": "recover/out:after",
}
"""Where a life ends, and where the restart after it."""
BY_HAND_AFTER = "begin/out:before"
"""The checkpoint is stored and has rows, as earlier steps cannot tell; nothing is sent."""
BROKER_DIES_AFTER = {"invoke/out:after"}


@pytest.mark.timeout(900)
def test_a_job_that_dies_at_every_step_leaves_every_row_once(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    job = KafkaJob(kafka.servers, kafka.new_topic(3))
    process = kafka_job(job, tmp_path)
    for point, again in JOB_POINTS.items():
        die(process, kafka, point)
        if point == BY_HAND_AFTER:
            settle_by_hand(process, kafka)
        if point in BROKER_DIES_AFTER:
            kafka.kill()
            kafka.start()
        if again is not None:
            die(process, kafka, again)
    job_id = process.checkpoints()[-1].job_id
    last = kafka_job(KafkaJob(kafka.servers, job.topic, rows_per_second=1e9), tmp_path)
    last.start()
    last.finish()
    settle(kafka.servers, job.topic)
    check_once(kafka, job, job.rows)
    assert_nothing_open(kafka, job_id)


def kafka_job(job: KafkaJob, out: Path) -> JobProcess:
    process = JobProcess(job, out / "job")  # type: ignore[arg-type]
    process.module = "tests.services.kafka_job"
    return process


def die(process: JobProcess, kafka: KafkaBroker, point: str) -> None:
    print(point, flush=True)
    process.start(crash_at=point)
    assert process.wait() == -9, f"{point} was not reached:\n{process.words()}"
    completed = process.checkpoints()
    least = rows_at(completed[-2]) if len(completed) > 1 else 0
    most = rows_at(completed[-1]) if completed else 0
    job: Any = process.spec

    def check() -> None:
        assert len(check_once(kafka, job)) in (least, most), f"{point}: a part of an epoch"

    in_time(check)


SCRIPT = """\
import json, sys
from pathlib import Path
from tests.services.kafka_job import build

out = Path(sys.argv[1])
job = build(json.loads((out / "spec.json").read_text()), out)
"""


def settle_by_hand(process: JobProcess, kafka: KafkaBroker) -> None:
    """What the dead job has promised is shown, sent by a command, and shown as sent."""
    script = process.out / "script.py"
    script.write_text(SCRIPT)

    def holdfast(verb: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "holdfast.cli", "transactions", verb, str(script)]
        done = subprocess.run(
            [*command, "--json", "--", str(process.out)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOLDFAST_HOME": f"{process.out}/home"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    (waits,) = holdfast("list")["transactions"]
    assert waits["owner"] == "completed checkpoint"
    assert "; not sent, the newest is checkpoint" in waits["parts"][0]
    (settled,) = holdfast("commit")["settled"]
    assert settled["outcome"] == "committed"
    job: Any = process.spec
    settle(kafka.servers, job.topic)
    assert len(check_once(kafka, job)) == rows_at(process.checkpoints()[-1])
    assert holdfast("list")["transactions"][0]["parts"][0].endswith("; sent")


def rows_at(checkpoint: CheckpointMetadata) -> int:
    """How many rows the source had given at the checkpoint, which says so itself."""
    offsets = [i.offset for region in checkpoint.regions for i in region.inputs if i.offset]
    return sum(int(json.loads(offset)["row"]) for offset in offsets)


def check_once(kafka: KafkaBroker, job: KafkaJob, rows: int | None = None) -> list[int]:
    """No row twice, none left out, and those of a key in order."""
    seen = [int(text) for text in values(kafka.servers, job.topic)]
    twice = [n for n, times in Counter(seen).items() if times > 1]
    assert not twice, f"{len(twice)} rows twice: {twice[:5]}"
    assert sorted(seen) == list(range(len(seen) if rows is None else rows))
    for key in range(7):
        of_key = [n for n in seen if n % 7 == key]
        assert of_key == sorted(of_key), f"key {key} is out of order"
    return seen
