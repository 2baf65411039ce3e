"""Failures of a job that is only a stand-in: which restarts are decided, and when it is enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.errors import Cause, HoldfastError
from holdfast.protocol.ladder import Source
from holdfast.runtime.failover import Failover, record_end
from holdfast.runtime.failure_log import FailureLog
from holdfast.runtime.fencing import Fenced
from holdfast.runtime.life import RegionFailed, Trouble
from holdfast.runtime.recovering import NothingToRestore
from holdfast.runtime.sentinel import JvmLost
from tests.services.processes import wait_until
from tests.unit.server_jobs import settings

LOST = Cause("holdfast.KafkaDataLost", "topic clicks is gone", "KAFKA_DATA_LOST")
DAMAGED = Cause("holdfast.DamagedFile", "cut short", "DAMAGED_FILE")
WRITTEN = Cause("holdfast.AlreadyPublished", "the file exists", "ALREADY_PUBLISHED")
TRACEBACK_OF_FENCED = """Traceback (most recent call last):
  File "regions.py", line 1, in _take_batch
holdfast.runtime.fencing.Fenced: another runner has taken over the job"""
AWAY = Cause("java.net.ConnectException", "Connection refused")


class Job:
    """Notes what is done with it; batches are committed by the test."""

    def __init__(self) -> None:
        self.committed = 3
        self.done: list[str] = []
        self.failed: HoldfastError | None = None
        self.replaced_another = False
        self.does_not_stop = False

    def batches(self, region: str | None) -> int:
        return self.committed

    def halt(self, regions: Sequence[str]) -> None:
        if self.does_not_stop:
            raise OSError("it does not stop")

    def revive(self, regions: Sequence[str]) -> None:
        self.done.append(f"revive {','.join(regions)}")

    def halt_all(self) -> None:
        pass

    def revive_all(self, source: Source) -> None:
        self.done.append(f"revive all from {source.value}")

    def fail(self, error: HoldfastError) -> None:
        self.failed = error
        self.done.append("fail")

    def has_replaced_another(self) -> bool:
        return self.replaced_another


class Run:
    def __init__(self, home: Path) -> None:
        self.job = Job()
        self.log = FailureLog(str(home))
        chosen = settings(
            **{
                "restart-strategy__type": "fixed-delay",
                "restart-strategy__fixed-delay__attempts": "infinite",
                "restart-strategy__fixed-delay__delay": "1ms",
            }
        )
        self.failover = Failover(chosen, {"a": [], "b": ["a"]}, self.log, self.job)
        self.failover.start()

    def fails_of(self, cause: Cause, region: str | None = "a") -> str:
        """What is done about it."""
        before = len(self.job.done)
        self.failover.report(Trouble(RegionFailed("it failed", region=region), (cause,), region))
        wait_until(lambda: len(self.job.done) > before, "something is done", 10)
        return self.job.done[-1]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    made.failover.close()


def test_what_is_gone_from_kafka_is_tried_once_more_where_the_region_stands(run: Run) -> None:
    assert run.fails_of(LOST) == "revive a"


def test_when_it_is_still_gone_the_job_fails_whatever_the_strategy_allows(run: Run) -> None:
    run.fails_of(LOST)
    assert run.fails_of(LOST) == "fail"
    assert "topic clicks is gone" in str(run.job.failed)
    assert "failOnDataLoss" in str(run.job.failed)
    record = run.log.all()[-1]
    assert (record.kind, record.delay) == ("PartitionDataMissing", None)
    assert "no checkpoint has it" in record.decision


def test_a_loss_after_new_batches_is_another_one(run: Run) -> None:
    run.fails_of(LOST)
    run.job.committed += 1
    assert run.fails_of(LOST) == "revive a"


def test_what_a_checkpoint_has_is_fetched_from_there_again_and_again(run: Run) -> None:
    for _ in range(4):
        assert run.fails_of(DAMAGED) == "revive all from checkpoint"


def test_a_loss_that_is_found_at_the_restart_itself_ends_the_job_too(run: Run) -> None:
    run.fails_of(LOST, None)
    assert run.fails_of(LOST, None) == "fail"


def test_other_failures_climb_as_before(run: Run) -> None:
    climbed = [run.fails_of(AWAY) for _ in range(3)]
    assert climbed == ["revive a", "revive all from own query logs", "revive all from checkpoint"]


def test_what_a_replaced_runner_writes_with_its_last_breath_is_read_anew_by_all(run: Run) -> None:
    run.job.replaced_another = True
    assert run.fails_of(WRITTEN) == "revive all from own query logs"
    record = run.log.all()[-1]
    assert record.kind == "Recoverable"
    assert "has been replaced" in record.why


def test_whoever_else_writes_to_the_jobs_files_ends_it(run: Run) -> None:
    assert run.fails_of(WRITTEN) == "fail"


def test_a_failure_that_cannot_even_be_judged_ends_the_job_and_is_told(run: Run) -> None:
    run.job.batches = None  # type: ignore[assignment]
    assert run.fails_of(AWAY) == "fail"
    assert "failover failed: TypeError" in str(run.job.failed)
    assert "failover failed: TypeError" in run.log.all()[-1].message


def test_regions_that_do_not_stop_end_the_job_and_that_is_on_record(run: Run) -> None:
    run.job.does_not_stop = True
    assert run.fails_of(AWAY) == "fail"
    assert run.log.all()[-1].message.startswith("what failed did not stop")


def test_what_ends_a_job_beside_failover_is_on_record_too(tmp_path: Path) -> None:
    log = FailureLog(str(tmp_path))
    record_end(log, (), JvmLost("Spark's JVM has ended"), "this process ends")
    record_end(log, (), NothingToRestore("there is nothing to go on from"))
    found = FailureLog(str(tmp_path)).all()
    assert [(each.number, each.kind, each.decision) for each in found] == [
        (1, "Environment", "this process ends"),
        (2, "NonRecoverable", "the job failed"),
    ]


def test_a_runner_that_was_replaced_writes_nothing_into_the_history_of_its_successor(
    run: Run, tmp_path: Path
) -> None:
    log = FailureLog(str(tmp_path))
    record_end(log, (), Fenced("another runner has taken over the job"))
    assert run.fails_of(Cause("holdfast.Fenced", "another runner", "FENCED")) == "fail"
    assert run.fails_of(Cause("x.PythonException", TRACEBACK_OF_FENCED)) == "fail"
    assert FailureLog(str(tmp_path)).all() == []


def test_a_history_that_cannot_be_written_hides_no_error() -> None:
    record_end(None, (), JvmLost("gone"))  # type: ignore[arg-type]
