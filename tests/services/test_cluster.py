"""Executors and workers of a real cluster die; every row counts once.

One job, hurt again and again, because starting a cluster takes longer than a recovery.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import clock
from holdfast.cli.client import Client
from holdfast.errors import HoldfastError
from holdfast.protocol.records import FailureRecord
from holdfast.runtime.failure_log import FailureLog
from holdfast.server.registry import Registry
from tests.faults.jobs.judge import Rows, check_output, everything
from tests.faults.jobs.process import JobProcess
from tests.faults.jobs.specs import JobSpec, SourceSpec, chain, hurried
from tests.faults.jobs.stores import check_all
from tests.faults.jobs.supervised import Supervised
from tests.faults.jobs.warm import quick_java
from tests.services.kafka_broker import KafkaBroker
from tests.services.kafka_reading import Arrivals, values
from tests.services.kafka_reading import everything as all_records
from tests.services.postgres_server import PostgresServer
from tests.services.spark_cluster import Executor, SparkCluster, kill, spark_cluster

_TRIES = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    (tmp_path / "cluster").mkdir()
    with spark_cluster(tmp_path / "cluster", "one", "two") as found:
        yield found


def spec(out: Path, cluster: SparkCluster, database: str, topic: str) -> JobSpec:
    """The chain, so slow that its sources do not end before everything has happened."""
    (out / "events").mkdir(parents=True)
    settings = {
        "holdfast.spark.master": cluster.master,
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.num-retained": "3",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "50",
        "restart-strategy.fixed-delay.delay": "200ms",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick_java(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{out}/events",
    }
    sources = (SourceSpec("fast", 40_000, 100, 40), SourceSpec("slow", 8_000, 30, 8))
    return replace(
        chain(),
        sources=sources,
        settings=settings,
        stores={"postgres": database},
        topics={"left": topic},
    )


class Events:
    """What Spark itself writes about its executors while it runs. Times are milliseconds."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read = 0
        self._removed: dict[str, int] = {}
        self._excluded: set[str] = set()
        self._well: dict[str, int] = {}

    def removed(self) -> dict[str, int]:
        """When which executor was lost."""
        self._look()
        return self._removed

    def excluded(self) -> set[str]:
        """Executors that had failed too often."""
        self._look()
        return self._excluded

    def at_work(self, since: int = 0) -> set[str]:
        """Executors that have ended a task well since then."""
        self._look()
        return {executor for executor, when in self._well.items() if when > since}

    def _look(self) -> None:
        for file in self._directory.glob("*/events_1_*"):
            with file.open("rb") as events:
                events.seek(self._read)
                for line in events:
                    if line.endswith(b"\n"):
                        self._take(json.loads(line))
                        self._read += len(line)

    def _take(self, event: dict[str, Any]) -> None:
        match event["Event"].rpartition(".")[2]:
            case "SparkListenerExecutorRemoved":
                self._removed[event["Executor ID"]] = event["Timestamp"]
            case "SparkListenerExecutorExcluded":
                self._excluded.add(event["executorId"])
            case "SparkListenerTaskEnd" if event["Task End Reason"]["Reason"] == "Success":
                task = event["Task Info"]
                self._well[task["Executor ID"]] = task["Finish Time"]


class Place:
    """A job on a cluster."""

    def __init__(self, job: JobProcess, cluster: SparkCluster, arrivals: Arrivals) -> None:
        self.job = job
        self.cluster = cluster
        self.arrivals = arrivals
        self.events = Events(job.out / "events")

    def checkpoints(self) -> dict[str, Any]:
        """What the job says about them; nothing while it cannot be asked."""
        for runner in Registry(self.job.out / "home" / "jobs").running():
            if runner.url is not None:
                try:
                    return Client(runner).get("/checkpoints")
                except HoldfastError:
                    break
        return {"history": []}

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """What came true while the job ran."""
        found: list[Any] = []

        def holds() -> bool:
            found[:] = [condition()]
            return bool(found[0])

        assert self.job.wait_until(holds), self.job.words()
        assert self.job.running, self.job.words()
        return found[0]

    def progress(self) -> None:
        """Wait for new work, and then for a checkpoint that was triggered after it."""
        now = _milliseconds()
        self.wait_for(lambda: self.events.at_work(since=now))
        now = _milliseconds()
        self.wait_for(lambda: self._completed_since(now))

    def _completed_since(self, when: int) -> bool:
        history = self.checkpoints()["history"]
        return any(c["status"] == "COMPLETED" and c["trigger_timestamp"] > when for c in history)

    def executors(self) -> list[Executor]:
        """Both of them, when they have work."""
        found: list[Executor] = self.wait_for(self._both)
        return found

    def _both(self) -> list[Executor]:
        found, at_work = self.cluster.executors(), self.events.at_work()
        ready = [executor for executor in found if str(executor.id) in at_work]
        return ready if len(ready) == 2 else []

    def executor_with_python(self) -> Executor:
        found: Executor = self.wait_for(
            lambda: next((e for e in self._both() if e.python_workers()), None)
        )
        return found

    def in_progress(self) -> list[int]:
        return [c["id"] for c in self.checkpoints()["history"] if c["status"] == "IN_PROGRESS"]

    def failures(self) -> list[FailureRecord]:
        (history,) = (self.job.out / "history").iterdir()
        return FailureLog(str(history)).all()


def _milliseconds() -> int:
    return int(time.time() * 1000)


# What happens to it


def lose_an_executor(place: Place) -> None:
    place.executors()[0].kill()


def lose_an_executor_during_a_checkpoint(place: Place) -> None:
    hit: list[int] = []
    while not hit:
        victim = place.executors()[-1]
        under_way = place.wait_for(place.in_progress)
        victim.kill()
        hit = [number for number in place.in_progress() if number in under_way]
        place.progress()


def lose_all_executors_while_they_send_to_kafka(place: Place) -> None:
    """With those who run their tasks, as when a machine dies, and a transaction stays open."""
    for _ in range(_TRIES):
        executors = place.executors()
        victims = [pid for each in executors for pid in (*each.python_workers(), each.pid)]
        before = place.arrivals.end()
        while place.arrivals.end() == before:
            assert place.job.running, place.job.words()
            time.sleep(0.001)
        for victim in victims:  # known before, as looking for them takes longer than sending
            kill(victim)
        place.progress()
        if place.arrivals.has_repeated():
            return
    pytest.fail(f"they were never lost while they sent, in {_TRIES} epochs")


def lose_a_worker(place: Place) -> None:
    place.executors()
    place.cluster.kill_worker("one")
    place.progress()
    assert [executor.worker for executor in place.cluster.executors()] == ["two"]
    place.cluster.start_worker("three")
    assert {executor.worker for executor in place.executors()} == {"two", "three"}


def lose_all_executors(place: Place) -> None:
    for executor in place.executors():
        executor.kill()


def lose_executors_until_spark_gives_up(place: Place) -> None:
    """A task that has lost its executor four times ends the batch; the region then restarts."""
    before = len(place.failures())

    def failed() -> bool:
        for executor in place.cluster.executors():
            if executor.has_had_tasks:
                executor.kill()
        return len(place.failures()) > before

    place.wait_for(failed)


def lose_a_python_worker(place: Place) -> None:
    place.executor_with_python().kill_python_workers()


def keep_losing_python_workers(place: Place) -> None:
    """Until Spark has given up the executor, and the cluster has started another."""
    victim = place.executor_with_python()

    def given_up() -> bool:
        victim.kill_python_workers()
        return victim.id not in [executor.id for executor in place.cluster.executors()]

    place.wait_for(given_up)


FAULTS = (
    lose_executors_until_spark_gives_up,
    lose_an_executor,
    lose_an_executor_during_a_checkpoint,
    lose_all_executors_while_they_send_to_kafka,
    lose_a_worker,
    lose_all_executors,
    lose_a_python_worker,
    keep_losing_python_workers,
)


@pytest.mark.timeout(1200)
def test_a_job_outlives_executors_and_workers_and_counts_every_row_once(
    tmp_path: Path, cluster: SparkCluster, postgres: PostgresServer, kafka: KafkaBroker
) -> None:
    topic = kafka.new_topic()
    slow = spec(tmp_path / "job", cluster, postgres.new_database(), f"{kafka.servers}/{topic}")
    arrivals = Arrivals(kafka.servers, topic)
    place = Place(JobProcess(slow, tmp_path / "job"), cluster, arrivals)
    place.job.start()
    try:
        place.progress()
        for fault in FAULTS:
            started = time.monotonic()
            fault(place)
            hurt = clock.now()
            place.progress()
            place.executors()
            print(f"{fault.__name__}: {time.monotonic() - started:.1f} s")
        check_others_took_over(place.events)
    finally:
        place.job.kill_group()
    finish_by_command(slow, place.job.out, cluster)
    check_output(slow, place.job.out, everything(slow))
    check_all(slow, everything(slow))
    check_topic(kafka, topic, everything(slow).output(slow.regions[0]))
    # A failure in the last moment before everything was killed has nobody to end it.
    check_regions_came_back([failure for failure in place.failures() if failure.at < hurt])


def check_topic(kafka: KafkaBroker, topic: str, expected: Rows) -> None:
    """Each row once; what was sent by those who died is there too, and hidden."""
    seen = [int(text) for text in values(kafka.servers, topic)]
    assert sorted(seen) == sorted(n for _, n in expected)
    assert len(all_records(kafka.servers, topic)) > len(seen)
    ours = [state for name, state in kafka.transactions().items() if "-kafka-left-" in name]
    assert set(ours) <= {"CompleteCommit", "CompleteAbort"}, ours


def check_others_took_over(events: Events) -> None:
    """Whoever was lost, another one has done its work since."""
    assert len(events.removed()) >= 6, events.removed()
    for executor, when in events.removed().items():
        assert events.at_work(since=when) - {executor}, executor
    assert events.excluded()


def check_regions_came_back(failures: list[FailureRecord]) -> None:
    """What Spark could not mend by itself is on record, and so is that it was mended."""
    assert "Environment" in [failure.kind for failure in failures]
    assert all(failure.kind != "NonRecoverable" for failure in failures), failures
    assert all(failure.recovered is not None for failure in failures), failures


def finish_by_command(slow: JobSpec, out: Path, cluster: SparkCluster) -> None:
    """The job goes on where it was, on the same cluster, and comes to its end."""
    job = Supervised(out, hurried(slow))
    try:
        assert job.end(job.run("--master", cluster.master)) == 0, job.words()
    finally:
        job.kill_everything()
