"""Jobs whose working directory and checkpoints are on HDFS, or whose checkpoints are on S3.

There are no hard links there, and on S3 no rename: the same deaths must do the same little harm.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.server.processes import session
from holdfast.spark.hadoop import HadoopFiles
from holdfast.storage import is_object_store
from holdfast.storage.names import is_unfinished, staging_name, temporary_name
from holdfast.storage.objects import ObjectStorage
from tests.faults.jobs.judge import check_output, everything
from tests.faults.jobs.process import JobProcess
from tests.faults.jobs.specs import JobSpec, chain, hurried
from tests.faults.test_job_crash_points import check_visible
from tests.services.kafka_broker import KafkaBroker
from tests.services.kafka_reading import Arrivals, committed, settle
from tests.services.kafka_reading import everything as all_records
from tests.services.processes import missing
from tests.services.servers import S3Server
from tests.services.test_kafka_crashes import (
    KafkaJob,
    assert_nothing_open,
    check_once,
    kafka_job,
)

_TRIES = 200
POINTS = ["copy:after#3", "store:before", "store:after"]


def spec(settings: dict[str, str]) -> JobSpec:
    job = chain(8_000)
    slower = tuple(replace(s, rows_per_second=s.rows_per_second / 20) for s in job.sources)
    common = {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.num-retained": 2,
    }
    return replace(job, sources=slower, settings={**common, **settings})


def live_through(job: JobSpec, out: Path, at_last: Callable[[], None] = lambda: None) -> JobProcess:
    process = JobProcess(job, out)
    for point in POINTS:
        process.start(crash_at=point)
        assert process.wait() == -9, f"{point} was not reached:\n{process.words()}"
        check_visible(process)
    at_last()
    newest = process.checkpoints()[-1]
    last = JobProcess(hurried(job), out)
    last.start(restore=process.path_of(newest))
    last.finish()
    check_output(job, out, everything(job))
    return last


@pytest.mark.timeout(900)
def test_work_and_checkpoints_on_hdfs_survive_crashes(
    hdfs: str, spark: SparkSession, tmp_path: Path
) -> None:
    base = f"{hdfs}/jobs-{secrets.token_hex(4)}"
    places = {"holdfast.work.dir": f"{base}/work", "execution.checkpointing.dir": f"{base}/kept"}
    job = spec(places)
    work = f"{base}/work/job"
    process = live_through(job, tmp_path / "job", lambda: leave_remains(f"{base}/kept", work))
    check_nothing_left_over(process, f"{base}/kept")
    assert unfinished_in(work) == unfinished_in(f"{work}/ids") == set()


@pytest.mark.timeout(900)
def test_of_two_runners_on_two_machines_the_newer_goes_on_and_every_row_counts_once(
    hdfs: str, spark: SparkSession, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        missing("only root can pretend to be another machine")
    base = f"{hdfs}/jobs-{secrets.token_hex(4)}"
    job = spec({"holdfast.work.dir": f"{base}/work", "execution.checkpointing.dir": f"{base}/kept"})
    endless = replace(job, sources=tuple(replace(s, rows_per_second=10) for s in job.sources))
    older = JobProcess(endless, tmp_path / "job")
    older.start()
    assert older.wait_until(lambda: bool(older.checkpoints())), older.words()
    newer = JobProcess(hurried(job), tmp_path / "job")
    newer.start(machine="elsewhere")
    assert older.wait() == 1
    assert "newer=2, host=elsewhere" in older.everything_said()
    newer.finish()
    check_output(job, newer.out, everything(job))
    check_nothing_left_over(newer, f"{base}/kept")


@pytest.mark.timeout(900)
def test_a_runner_that_was_halted_while_it_sent_to_kafka_cannot_commit_when_it_wakes(
    hdfs: str, spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        missing("only root can pretend to be another machine")
    base = f"{hdfs}/jobs-{secrets.token_hex(4)}"
    places = {"holdfast.work.dir": f"{base}/work", "execution.checkpointing.dir": f"{base}/kept"}
    job = KafkaJob(kafka.servers, kafka.new_topic(3), 80_000, 4_000, settings=places)
    older = kafka_job(job, tmp_path)
    older.start()
    visible = halt_while_it_sends(older, job)
    job_id = older.checkpoints()[-1].job_id
    newer = kafka_job(replace(job, rows_per_second=1e9), tmp_path)
    newer.start(machine="elsewhere")
    assert newer.wait_until(lambda: len(committed(job.servers, job.topic)) > visible)
    halt(older, signal.SIGCONT)
    assert older.wait() == 1
    assert "newer=2, host=elsewhere" in older.everything_said()
    newer.finish()
    settle(kafka.servers, job.topic)
    check_once(kafka, job, job.rows)
    assert_nothing_open(kafka, job_id)
    sent = Counter(record.value for record in all_records(job.servers, job.topic))
    assert max(sent.values()) >= 2, "what it had sent when it was halted was sent again"


def halt_while_it_sends(process: JobProcess, job: KafkaJob) -> int:
    """With rows in a transaction that is open; how many rows are visible by then."""
    arrivals = Arrivals(job.servers, job.topic)
    for _ in range(_TRIES):
        before = arrivals.end()
        while arrivals.end() == before:
            assert process.running, process.words()
            time.sleep(0.001)
        halt(process, signal.SIGSTOP)
        if arrivals.has_open_transaction():
            return len(committed(job.servers, job.topic))
        halt(process, signal.SIGCONT)
    pytest.fail(f"it was never halted while it sent, in {_TRIES} epochs")


def halt(process: JobProcess, number: signal.Signals) -> None:
    """The runner, its JVM and those who run its tasks."""
    assert process.process is not None
    for pid in session(process.process.pid):
        os.kill(pid, number)


@pytest.mark.timeout(900)
def test_checkpoints_on_s3_survive_crashes(s3: S3Server, tmp_path: Path) -> None:
    base = f"s3a://{s3.bucket}/jobs-{secrets.token_hex(4)}"
    process = live_through(spec({"execution.checkpointing.dir": base}), tmp_path / "job")
    check_nothing_left_over(process, base)


def check_nothing_left_over(process: JobProcess, base: str) -> None:
    """Every file belongs to a completed checkpoint; nothing is unfinished."""
    completed = process.checkpoints()
    owned = {f"{m.job_id}/chk-{m.id}/_metadata" for m in completed}
    owned |= {f"{m.job_id}/{f.place}" for m in completed for f in m.files if f.place}
    assert everything_below(base) == owned
    for job in {m.job_id for m in completed}:
        assert unfinished_in(f"{base}/{job}") == set()


def everything_below(base: str) -> set[str]:
    """Every file, also those that a storage does not list because they are unfinished."""
    if is_object_store(base):
        return {info.path for info in ObjectStorage(base).list_all()}
    found = HadoopFiles(base).files_below(base)
    return {file.path.removeprefix(f"{base}/") for file in found}


def unfinished_in(directory: str) -> set[str]:
    """Directories that somebody is building right here, or was when he died."""
    if is_object_store(directory):
        return set()
    names = (e.path.rpartition("/")[2] for e in HadoopFiles(directory).entries_of(directory))
    return {name for name in names if is_unfinished(name)}


def leave_remains(base: str, work: str) -> None:
    """What crashes leave on HDFS, at places where no step lets a job die."""
    (job,) = (e.path for e in HadoopFiles(base).entries_of(base))
    for place in (
        f"{job}/{staging_name('chk-900')}/1/a/x",
        f"{job}/shared/{temporary_name()}",
        f"{work}/{staging_name('attempt-900')}/regions/a/metadata",
        f"{work}/ids/{temporary_name()}",
    ):
        HadoopFiles(base).create(place, [b"half"])
