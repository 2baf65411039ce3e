"""The coordinator beside its stand-ins: when it triggers, and that everybody gets an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.errors import HoldfastError
from holdfast.protocol.failures import Reason
from holdfast.protocol.triggering import Cause
from holdfast.runtime import commits, coordinator
from holdfast.runtime.commits import Commits
from holdfast.runtime.coordinator import CheckpointFailed, Coordinator
from tests.services.processes import wait_until
from tests.unit.server_jobs import settings

PATIENCE = 60.0


class Store:
    """The one sink of the job: it commits unless it is away."""

    uid = "out"

    def __init__(self) -> None:
        self.away = False

    def commit(self, _: int) -> None:
        if self.away:
            raise ConnectionError("away")

    def refused(self) -> None:
        """Nothing is staged here that could grow."""


class Job:
    """A job of one region, which is cut and copied at once unless it is told to wait."""

    def __init__(self, concurrent: int = 1) -> None:
        self.sink = Store()
        self.holds = False
        self.triggered: list[int] = []
        self.aborted: list[str] = []
        self.told: list[int] = []
        self.troubles: list[HoldfastError] = []
        self.hook_may_return = threading.Event()
        self.hook_may_return.set()
        self.commits = Commits(cast(Any, [self.sink]))
        chosen = replace(settings().checkpointing, max_concurrent=concurrent)
        self.coordinator = Coordinator(
            chosen,
            ["a"],
            cast(Any, self),
            cast(Any, self),
            cast(Any, self),
            self.commits,
            lambda: len(self.triggered) + 1,
            self.troubles.append,
        )

    # As gates and snapshots

    def trigger(self, checkpoint: int, _: object) -> None:
        self.triggered.append(checkpoint)
        if not self.holds:
            self.coordinator.cuts_reached([cast(Any, cut_of(checkpoint))])

    def take(self, cut: Any, _writer: object, _full: bool, answered: Any) -> None:
        answered(cut, SimpleNamespace(figures=None))

    def abort(self, _: int) -> None:
        """Of gates."""

    def unpin(self, _: object) -> None:
        """Of gates."""

    def failed(self, checkpoint: int, *why: object) -> None:
        """Of snapshots, and of the history, which is told why."""
        if why:
            self.aborted.append(str(why[1]))

    def take_unneeded(self) -> list[Any]:
        return []

    def delete_segments(self, _: object) -> None:
        """Of snapshots."""

    # As completion, store and history

    @property
    def store(self) -> Any:
        return SimpleNamespace(begin=lambda _: SimpleNamespace(give_up=bool, abort=bool))

    @property
    def history(self) -> Any:
        return SimpleNamespace(begin=id, acknowledged=lambda *_: None, failed=self.failed)

    def before(self, _: int) -> dict[str, Any]:
        return {}

    def store_it(self, *_: object) -> None:
        """Of completion."""

    def subsume(self) -> None:
        """Of completion."""

    def notify(self, checkpoint: int) -> None:
        self.hook_may_return.wait(PATIENCE)
        self.told.append(checkpoint)

    # What tests do

    def time_is_over(self) -> None:
        """For every checkpoint that is under way."""
        self.coordinator._settings = replace(self.coordinator._settings, timeout=0.0)
        self.has_looked()

    def has_looked(self) -> None:
        """Wait until everything that was put before is taken, and the clock has been looked at."""
        looked = threading.Event()
        self.coordinator._events.put(looked.set)
        assert looked.wait(PATIENCE)


def cut_of(checkpoint: int) -> SimpleNamespace:
    return SimpleNamespace(checkpoint=checkpoint, region="a")


@contextmanager
def running(job: Job) -> Iterator[Job]:
    job.commits.start()
    job.coordinator.start()
    try:
        yield job
    finally:
        job.hook_may_return.set()
        job.coordinator.close()
        job.commits.close()


@pytest.fixture(autouse=True)
def pauses_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(commits, "LONGEST_PAUSE", 0.01)


@pytest.mark.parametrize("cause", Cause)
def test_nothing_is_triggered_before_the_sinks_have_committed_the_one_before(cause: Cause) -> None:
    with running(Job()) as job:
        job.sink.away = True
        assert job.coordinator.request(Cause.USER).result(PATIENCE) == 1
        second = job.coordinator.request(cause)
        job.has_looked()
        assert job.triggered == [1]
        assert not second.done()
        job.sink.away = False
        assert second.result(PATIENCE) == 2
        assert job.told == [1, 2]


def test_a_checkpoint_that_expires_while_a_sink_waits_does_not_count() -> None:
    with running(Job(concurrent=2)) as job:
        job.holds = True
        first, second = (job.coordinator.request(Cause.USER) for _ in range(2))
        wait_until(lambda: job.triggered == [1, 2], "both are triggered", PATIENCE)
        job.sink.away = True
        job.coordinator.cuts_reached([cast(Any, cut_of(1))])
        assert first.result(PATIENCE) == 1
        job.time_is_over()
        with pytest.raises(CheckpointFailed, match="a sink could not commit an older one"):
            second.result(PATIENCE)
        assert job.aborted == ["SINK_WAITS"]
        assert job.troubles == []


def test_a_checkpoint_that_expires_otherwise_counts() -> None:
    with running(Job()) as job:
        job.holds = True
        future = job.coordinator.request(Cause.USER)
        job.has_looked()
        job.time_is_over()
        with pytest.raises(CheckpointFailed, match="expired before completing"):
            future.result(PATIENCE)
        wait_until(lambda: bool(job.troubles), "the job is told", PATIENCE)
        assert job.aborted == ["EXPIRED"]


def test_whoever_asks_a_coordinator_that_closes_gets_an_answer() -> None:
    with running(Job()) as job:
        job.holds = True
        under_way, queued = (job.coordinator.request(Cause.USER) for _ in range(2))
        job.has_looked()
        job.coordinator._events.put(lambda: job.coordinator._close(Reason.JOB_STOPPED))
        late = job.coordinator.request(Cause.USER)  # behind the end, or after it
        job.coordinator.close()
        for future in (under_way, queued, late, job.coordinator.request(Cause.FINAL)):
            with pytest.raises(CheckpointFailed, match="The job was stopped"):
                future.result(PATIENCE)


def test_whoever_asks_a_coordinator_that_never_begins_gets_an_answer() -> None:
    job = Job()
    early = job.coordinator.request(Cause.USER)
    job.coordinator.close()
    for future in (early, job.coordinator.request(Cause.USER)):
        with pytest.raises(CheckpointFailed, match="The job was stopped"):
            future.result(PATIENCE)


def test_a_completion_hook_that_hangs_holds_up_neither_checkpoints_nor_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "_PATIENCE", 0.01)
    with running(Job()) as job:
        job.hook_may_return.clear()
        first = job.coordinator.request(Cause.USER)
        job.coordinator.request(Cause.USER)
        wait_until(lambda: job.triggered == [1, 2], "the next one is triggered", PATIENCE)
        job.coordinator.close()
        with pytest.raises(CheckpointFailed, match="The job was stopped"):
            first.result(PATIENCE)
        assert job.told == []
