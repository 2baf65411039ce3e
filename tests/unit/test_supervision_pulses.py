"""What the pulse of a job says: whether there is work, and whether it moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from holdfast import clock
from holdfast.supervision.pulses import Pulses


class State(Enum):
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"


@dataclass
class Restart:
    at: float


@dataclass
class Query:
    status: dict[str, Any]


@dataclass
class Region:
    query: Query | None
    halted: bool = False
    finished: bool = False


@dataclass
class Snapshot:
    uid: str
    cut: int


@dataclass
class Latest:
    id: int
    regions: list[Snapshot]


@dataclass
class Store:
    latest: Latest | None = None


@dataclass
class Commit:
    sink: str
    in_a_row: int


@dataclass
class Commits:
    figures: list[Commit] = field(default_factory=list)


@dataclass
class Job:
    """As much of a running job as a pulse is taken from; it has no JVM."""

    regions: dict[str, Region] = field(default_factory=dict)
    store: Store = field(default_factory=Store)
    commits: Commits = field(default_factory=Commits)
    next_restart: Restart | None = None
    state: State = State.RUNNING
    spark: object = None

    def batches(self, region: str | None) -> int:
        return 7


def pulses(job: Job) -> Pulses:
    return Pulses(job)  # type: ignore[arg-type]


def asked(active: bool, data: bool) -> Query:
    return Query({"isTriggerActive": active, "isDataAvailable": data, "message": ""})


@pytest.mark.parametrize(
    ("region", "busy"),
    [
        (Region(asked(active=True, data=True)), True),
        (Region(asked(active=True, data=False)), False),
        (Region(asked(active=False, data=True)), False),
        (Region(None), False),
        (Region(asked(active=True, data=True), halted=True), False),
        (Region(asked(active=True, data=True), finished=True), False),
    ],
)
def test_a_job_is_busy_while_a_batch_runs_and_not_while_it_looks_for_rows(
    region: Region, busy: bool
) -> None:
    taken = pulses(Job({"a": region})).take()
    assert (taken.state, taken.batches, taken.tasks) == ("RUNNING", 7, 0)
    assert taken.busy is busy


def test_checkpoints_of_a_job_that_stands_still_are_no_progress() -> None:
    job = Job()
    its = pulses(job)
    assert its.take().checkpoints == 0
    job.store.latest = Latest(4, [Snapshot("a", 10)])
    assert its.take().checkpoints == 4
    job.store.latest = Latest(5, [Snapshot("a", 10)])
    assert its.take().checkpoints == 4
    job.store.latest = Latest(6, [Snapshot("a", 11)])
    assert its.take().checkpoints == 6


def test_a_sink_that_cannot_commit_and_a_restart_may_be_waited_for() -> None:
    job = Job(commits=Commits([Commit("good", 0), Commit("orders", 2)]))
    assert pulses(job).take().waiting == "the store of orders"
    job.next_restart = Restart(clock.now() + 3600)
    assert pulses(job).take().waiting == "a restart"
    assert not pulses(job).take().should_move
    assert pulses(Job()).take().waiting is None


@pytest.mark.parametrize("state", State)
def test_a_restart_that_should_have_come_excuses_nobody(state: State) -> None:
    halted = {"a": Region(asked(active=True, data=True), halted=True)}
    job = Job(halted, commits=Commits([Commit("orders", 2)]), state=state)
    job.next_restart = Restart(clock.now() - 1)
    taken = pulses(job).take()
    assert taken.waiting is None
    assert taken.should_move


def test_a_store_that_is_away_does_not_excuse_a_job_that_is_being_stopped() -> None:
    job = Job(commits=Commits([Commit("orders", 2)]), state=State.RESTARTING)
    assert pulses(job).take().should_move


def test_a_job_that_cannot_be_looked_at_is_alive_all_the_same() -> None:
    job = Job({"a": Region(asked(active=True, data=True))})
    its = pulses(job)
    assert its.take().busy
    job.store = None  # type: ignore[assignment]
    job.state = State.RESTARTING
    assert (its.take().busy, its.take().state) == (False, "RESTARTING")
