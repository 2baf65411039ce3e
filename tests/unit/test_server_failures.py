"""Failures and restarts as the server tells of them: Flink's exceptions, our own, the view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from holdfast.protocol.records import FailureRecord
from holdfast.runtime.failover import NextRestart
from holdfast.runtime.running import RunningJob, State
from holdfast.server.serving import serving
from holdfast.server.shapes import jobs, own
from holdfast.server.shapes.exceptions import exceptions
from holdfast.server.view import JobView, look
from tests.unit.server_jobs import (
    JOB_ID,
    START,
    StandIn,
    completed,
    failed_view,
    failure,
    fatal,
    job_view,
    joined,
    restarting_view,
    settings,
)


def with_failures(*failures: FailureRecord) -> JobView:
    return replace(job_view(), failures=failures)


def entries(view: JobView, most: int = 20, **wanted: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = exceptions(view, most, wanted)["exceptionHistory"]["entries"]
    return found


# Flink's shape


def test_exceptions_are_newest_first_with_name_text_time_task_and_labels() -> None:
    newest, oldest = entries(with_failures(failure(1), failure(2)))
    assert (oldest["timestamp"], newest["timestamp"]) == (1_790_000_010_000, 1_790_000_020_000)
    assert oldest["exceptionName"] == "java.io.IOException"
    assert "Caused by: java.io.IOException: Connection reset by peer" in oldest["stacktrace"]
    assert oldest["taskName"] == "pv"
    assert oldest["failureLabels"] == {
        "class": "Recoverable",
        "scope": "individual",
        "decision": "restart",
    }
    assert oldest["concurrentExceptions"] == []
    assert set(oldest) == {
        "exceptionName", "stacktrace", "timestamp", "taskName", "failureLabels",
        "concurrentExceptions",
    }  # fmt: skip


def test_a_failure_of_no_region_has_no_task_and_one_that_ended_the_job_no_scope() -> None:
    newest, oldest = entries(with_failures(failure(1, region=None), fatal(2)))
    assert "taskName" not in oldest
    assert newest["failureLabels"] == {"class": "NonRecoverable", "decision": "fail"}


def test_a_failure_that_joined_another_is_concurrent_to_it_and_no_entry() -> None:
    view = with_failures(failure(1), joined(2, root=1), failure(3), joined(4, root=3))
    newest, oldest = entries(view)
    (other,) = oldest["concurrentExceptions"]
    assert (other["taskName"], other["timestamp"]) == ("views", 1_790_000_020_000)
    assert "concurrentExceptions" not in other
    assert other["failureLabels"]["decision"] == "join"
    assert len(newest["concurrentExceptions"]) == 1


def test_the_history_is_as_long_as_the_setting_says_and_joined_ones_do_not_count() -> None:
    many = with_failures(failure(1), joined(2, root=1), failure(3), failure(4))
    short = replace(many, settings=settings(**{"web__exception-history-size": "2"}))
    assert [entry["timestamp"] for entry in entries(short)] == [
        1_790_000_040_000,
        1_790_000_030_000,
    ]
    assert exceptions(short, 20)["exceptionHistory"]["truncated"] is False
    assert exceptions(short, 1)["exceptionHistory"]["truncated"] is True
    assert len(entries(short, most=1)) == 1
    assert len(entries(with_failures(*(failure(n) for n in range(1, 30))), most=100)) == 16


def test_what_ended_the_job_is_told_once_also_if_it_is_on_no_record() -> None:
    ended = failed_view()
    assert [e["exceptionName"] for e in entries(replace(ended, failures=(failure(1),)))] == [
        "RegionFailed",
        "java.io.IOException",
    ]
    assert len(entries(replace(ended, failures=(failure(1), fatal(2))))) == 2
    of_another_run = replace(fatal(1), at=START - 100)
    assert len(entries(replace(ended, failures=(of_another_run,)))) == 2


def test_details_of_a_job_that_restarts_have_its_state_and_when_it_came_into_it() -> None:
    document = jobs.details(restarting_view())
    assert document["state"] == "RESTARTING"
    assert document["timestamps"]["RESTARTING"] == 1_790_000_002_000
    assert document["status-counts"]["SCHEDULED"] == 2
    assert {vertex["status"] for vertex in document["vertices"]} == {"SCHEDULED"}
    assert jobs.overview(restarting_view())["tasks"]["scheduled"] == 2


# Our own shape


def test_our_own_shape_has_every_field_newest_first_and_the_restart_that_is_due() -> None:
    document = json.loads(json.dumps(own.failures(restarting_view(), 20)))
    newest, oldest = document["failures"]
    assert oldest == {**failure(1).to_dict(), "duration": pytest.approx(1.2)}
    assert (newest["recovered"], newest["duration"]) == (None, None)
    assert (document["total"], document["restarts"]) == (2, 2)
    assert document["next_restart"] == {
        "at": START + 63,
        "attempt": 2,
        "why": "no cause says that a restart cannot help",
        "regions": [],
    }
    assert document["job"] == {"id": JOB_ID, "name": "page-views", "state": "RESTARTING"}
    assert [each["number"] for each in own.failures(restarting_view(), 1)["failures"]] == [2]


def test_the_document_of_a_job_has_the_newest_failure_and_how_many_there_were() -> None:
    document = own.job(restarting_view())
    assert document["failures"]["total"] == 2
    assert document["failures"]["latest"]["number"] == 2
    assert document["next_restart"]["attempt"] == 2
    assert own.job(job_view())["failures"] == {"total": 0, "latest": None}


def test_restarts_are_counted_in_this_run_and_without_failures_that_joined() -> None:
    earlier = replace(failure(1), at=START - 100)
    view = with_failures(earlier, failure(2), joined(3, root=2), failure(4), fatal(5))
    assert view.restarts == 2


# Requests


@pytest.fixture(scope="module")
def job() -> StandIn:
    return StandIn()


@pytest.fixture(scope="module")
def client(job: StandIn) -> Iterator[httpx.Client]:
    with the_token(), serving({JOB_ID: job}, "127.0.0.1", 0) as address:
        headers = {"Authorization": "Bearer a-token-of-this-test"}
        url = f"{address.url}/jobs/{JOB_ID}"
        with httpx.Client(base_url=url, headers=headers, trust_env=False) as made:
            yield made


@contextmanager
def the_token() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_TOKEN", "a-token-of-this-test")
        yield


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [4, 3, 1]),
        ("?failureLabelFilter=class:Recoverable", [3, 1]),
        ("?failureLabelFilter=class:Recoverable,scope:all", [3]),
        ("?failureLabelFilter=class:Recoverable&failureLabelFilter=scope:individual", [1]),
        ("?failureLabelFilter=decision:fail&maxExceptions=5", [4]),
        ("?failureLabelFilter=class:recoverable", []),
        ("?failureLabelFilter=colour:red", []),
        ("?failureLabelFilter=", [4, 3, 1]),
        ("?maxExceptions=1", [4]),
        ("?failureLabelFilter=class:Recoverable&maxExceptions=1", [3]),
    ],
)
def test_exceptions_can_be_limited_and_filtered_by_all_of_some_labels(
    client: httpx.Client, job: StandIn, query: str, numbers: list[int]
) -> None:
    job.now = with_failures(failure(1), joined(2, root=1), failure(3, None), fatal(4))
    found = client.get(f"/exceptions{query}").json()["exceptionHistory"]["entries"]
    assert [(entry["timestamp"] / 1000 - START) / 10 for entry in found] == numbers


@pytest.mark.parametrize("filter_", ["class", "class:", ":Recoverable", "class:a,scope"])
def test_a_filter_that_is_no_name_and_value_is_a_bad_request(
    client: httpx.Client, filter_: str
) -> None:
    response = client.get("/exceptions", params={"failureLabelFilter": filter_})
    assert response.status_code == 400
    assert response.json() == {"errors": ["failureLabelFilter must be name:value,name:value."]}


def test_all_failures_are_there_under_a_path_of_our_own(client: httpx.Client, job: StandIn) -> None:
    job.now = with_failures(*(failure(n) for n in range(1, 30)))
    assert len(client.get("/holdfast/failures").json()["failures"]) == 20
    found = client.get("/holdfast/failures", params={"last": 100}).json()
    assert [each["number"] for each in found["failures"]] == list(range(29, 0, -1))
    assert client.get("/holdfast/failures", params={"last": "all"}).status_code == 400


# Looking at a job that runs


class Running:
    """As much of a running job of one region as is looked at."""

    def __init__(self, state: State = State.RUNNING) -> None:
        self.job_id, self.state, self.failure = JOB_ID, state, None
        self.entered = {State.CREATED: START, State.RUNNING: START + 2}
        self.settings = settings()
        self.graph = SimpleNamespace(
            name="page-views", channels={}, inputs=lambda _: (), sinks_of=lambda _: ()
        )
        self.region = SimpleNamespace(
            uid="pv",
            region=SimpleNamespace(reads=("clicks",), output_mode="append"),
            figures=SimpleNamespace(
                rows=0, rows_per_second=9.0, state_rows=0, state_bytes=0, busy=0.0,
                backpressured=0.0, watermark=None, lag=0, partitions=(),
            ),
            finished=False,
            halted=False,
        )  # fmt: skip
        self.regions = {"pv": self.region}
        self.gates = SimpleNamespace(last_batch=lambda _: 4)
        self.commits = SimpleNamespace(figures=())
        self.store = SimpleNamespace(latest=None, path_of=lambda n: f"/chk/chk-{n}")
        self.checkpoints = {5: replace(completed(5), triggered=START + 5)}
        self.history = SimpleNamespace(
            all=lambda: list(self.checkpoints.values()), get=self.checkpoints.get
        )
        self.failures = SimpleNamespace(all=lambda: [failure(1), failure(2)])
        self.next_restart: NextRestart | None = None
        self.attempt = SimpleNamespace(restored_from=None)
        self.found = SimpleNamespace(restored_from=None)

    def look(self) -> JobView:
        return look(cast("RunningJob", self))

    def go_on_from(self, checkpoint: int | None, *, resumed: bool = False) -> None:
        self.attempt = SimpleNamespace(restored_from=checkpoint)
        self.found = SimpleNamespace(restored_from=None if resumed else checkpoint)


def test_a_look_has_failures_and_the_restart_that_is_due() -> None:
    running = Running()
    assert running.look().next_restart is None
    running.next_restart = NextRestart(START + 9, 1, "why", ("pv",))
    view = running.look()
    assert view.next_restart == running.next_restart
    assert [each.number for each in view.failures] == [1, 2]
    assert view.restarts == 2


def test_a_region_that_waits_for_its_restart_is_scheduled() -> None:
    running = Running()
    before = running.look().regions[0]
    assert (before.status, before.rows_per_second) == ("RUNNING", 9.0)
    running.region.halted = True
    waiting = running.look().regions[0]
    assert (waiting.status, waiting.rows_per_second) == ("SCHEDULED", 0.0)
    running.region.finished = True
    assert running.look().regions[0].status == "SCHEDULED"
    running.region.halted = False
    assert running.look().regions[0].status == "FINISHED"
    running.state = State.RESTARTING
    assert running.look().regions[0].status == "SCHEDULED"
    running.state, running.region.halted = State.FAILING, True
    assert running.look().regions[0].status == "CANCELING"


@pytest.mark.parametrize("state", list(State))
def test_every_state_can_be_looked_at_also_just_before_its_time_is_on_record(state: State) -> None:
    view = Running(state).look()
    assert view.state in view.entered
    assert view.regions[0].status
    assert view.duration >= 0


def test_a_job_that_went_back_to_a_checkpoint_by_itself_says_which() -> None:
    running = Running()
    assert running.look().restored is None
    running.go_on_from(5)
    restored = running.look().restored
    assert restored is not None
    assert (restored.id, restored.path, restored.at) == (5, "/chk/chk-5", START + 2)


def test_it_still_says_so_after_a_restart_where_it_stood() -> None:
    running = Running()
    running.settings = settings(**{"execution__state-recovery__path": "/old/chk-3"})
    running.go_on_from(3, resumed=True)
    begun = running.look().restored
    assert begun is not None
    assert (begun.id, begun.path, begun.at) == (3, "/old/chk-3", START)
    running.go_on_from(5, resumed=True)
    restored = running.look().restored
    assert restored is not None
    assert (restored.id, restored.path) == (5, "/chk/chk-5")


def test_an_attempt_that_an_earlier_run_had_restored_is_not_restored_in_this_one() -> None:
    running = Running()
    running.go_on_from(4, resumed=True)
    assert running.look().restored is None
