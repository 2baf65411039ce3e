"""Requests to the server of a job that is only a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from holdfast.errors import StorageError
from holdfast.server.guard import LARGEST_BODY, new_token
from holdfast.server.operations import KEPT_SECONDS, Operations
from holdfast.server.problems import RequestRefused
from holdfast.server.serving import serving
from holdfast.server.shapes.vertices import vertex_id
from holdfast.server.view import JobAccess
from tests.unit.server_jobs import JOB_ID, StandIn, job_view

TOKEN = "a-token-of-this-test"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
OTHER = "f" * 32
JOB = f"/jobs/{JOB_ID}"
VERTEX = vertex_id("pv")

PATHS = (
    "/jobs",
    "/jobs/overview",
    "/overview",
    "/config",
    JOB,
    f"{JOB}/status",
    f"{JOB}/plan",
    f"{JOB}/config",
    f"{JOB}/execution-result",
    f"{JOB}/exceptions",
    f"{JOB}/checkpoints",
    f"{JOB}/checkpoints/config",
    f"{JOB}/checkpoints/details/1",
    f"{JOB}/checkpoints/details/1/subtasks/{VERTEX}",
    f"{JOB}/vertices/{VERTEX}",
    f"{JOB}/holdfast",
    f"{JOB}/holdfast/checkpoints",
)


@pytest.fixture(scope="module")
def jobs() -> dict[str, JobAccess]:
    """The jobs of the one server of all tests here; each test puts its own into it."""
    return {}


@pytest.fixture(scope="module")
def client(jobs: dict[str, JobAccess]) -> Iterator[httpx.Client]:
    with (
        the_token(),
        serving(jobs, "127.0.0.1", 0) as address,
        httpx.Client(base_url=address.url, headers=BEARER, trust_env=False) as made,
    ):
        yield made


@contextmanager
def the_token() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_TOKEN", TOKEN)
        yield


@pytest.fixture(autouse=True)
def job(jobs: dict[str, JobAccess]) -> StandIn:
    made = StandIn()
    jobs[JOB_ID] = made
    return made


def errors_of(response: Any, status: int) -> str:
    assert response.status_code == status
    assert list(response.json()) == ["errors"]
    return "; ".join(response.json()["errors"])


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("path", PATHS)
def test_each_path_answers_with_json_with_and_without_v1(
    client: httpx.Client, prefix: str, path: str
) -> None:
    response = client.request("GET", prefix + path, content=b"{}")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json; charset=UTF-8"
    assert "errors" not in response.json()
    assert not [name for name in response.headers if name.startswith("access-control")]


# Who may ask


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ""},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
    ],
)
@pytest.mark.parametrize("path", ["/jobs", "/nowhere", f"/v1{JOB}/checkpoints"])
def test_nothing_is_told_without_the_token(
    client: httpx.Client, headers: dict[str, str], path: str
) -> None:
    assert "token" in errors_of(client.get(path, headers=headers), 401)


def test_nothing_is_done_without_the_token(client: httpx.Client, job: StandIn) -> None:
    nobody = {b"Authorization": "Bearer é".encode()}
    errors_of(client.post(f"{JOB}/checkpoints", headers=nobody), 401)
    errors_of(client.patch(JOB, headers=nobody), 401)
    assert job.asked == []
    assert job.now.state == "RUNNING"


def test_the_token_may_also_be_in_the_query(client: httpx.Client) -> None:
    nobody = {"Authorization": ""}
    assert client.get(f"/jobs?token={TOKEN}", headers=nobody).status_code == 200
    errors_of(client.get("/jobs?token=wrong", headers=nobody), 401)


def test_tokens_are_long_and_different() -> None:
    assert len({new_token() for _ in range(20)}) == 20
    assert len(new_token()) > 40


def test_a_large_body_is_refused_also_when_it_does_not_say_how_large(
    client: httpx.Client, job: StandIn
) -> None:
    path = f"{JOB}/checkpoints"
    piece = b" " * (LARGEST_BODY // 4)
    errors_of(client.post(path, content=piece * 5), 413)
    errors_of(client.post(path, content=(piece for _ in range(5))), 413)
    assert job.asked == []


# What cannot be answered


@pytest.mark.parametrize("path", [p.replace(JOB_ID, OTHER) for p in PATHS if JOB_ID in p])
def test_an_unknown_job_is_not_found_and_its_status_is_an_error(
    client: httpx.Client, path: str
) -> None:
    text = errors_of(client.get(path), 500 if path.endswith("/status") else 404)
    assert text == f"Job {OTHER} not found"


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/xyz",
        "/jobs/..%2f..%2fetc",
        f"{JOB}/checkpoints/details/x",
        f"{JOB}/checkpoints/details/-1",
        f"{JOB}/vertices/pv",
        f"{JOB}/checkpoints/zzz",
        f"{JOB}/exceptions?maxExceptions=all",
        f"{JOB}/holdfast/checkpoints?last=-1",
    ],
)
def test_a_parameter_that_cannot_be_read_is_a_bad_request(client: httpx.Client, path: str) -> None:
    status = 404 if "%2f" in path else 400
    errors_of(client.get(path), status)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{JOB}/checkpoints/details/99", "checkpoint 99"),
        (f"{JOB}/vertices/{OTHER}", OTHER),
        (f"{JOB}/checkpoints/{OTHER}", f"triggerId={OTHER}"),
        ("/nowhere", "Unable to load requested file /nowhere."),
        ("/jobs/", "Unable to load requested file /jobs/."),
    ],
)
def test_what_is_not_there_is_not_found(client: httpx.Client, path: str, text: str) -> None:
    assert text in errors_of(client.get(path), 404)


def test_an_unknown_path_or_method_is_not_found(client: httpx.Client) -> None:
    assert errors_of(client.post("/nowhere"), 404) == "Not found: /nowhere"
    assert errors_of(client.delete(JOB), 404) == f"Not found: {JOB}"


def test_what_goes_wrong_inside_is_not_shown(
    client: httpx.Client, job: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("a secret path")

    monkeypatch.setattr(job, "view", broken)
    assert errors_of(client.get(JOB), 500) == "Internal server error."


# Checkpoints


def test_a_checkpoint_is_asked_for_and_its_id_is_fetched_later(
    client: httpx.Client, job: StandIn
) -> None:
    response = client.post(f"{JOB}/checkpoints", json={"checkpointType": "FULL", "triggerId": None})
    assert response.status_code == 202
    path = f"{JOB}/checkpoints/{response.json()['request-id']}"
    assert client.get(path).json() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    job.future.set_result(7)
    answer = {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 7}}
    assert client.get(path).json() == answer
    assert job.asked == [True]


def test_a_checkpoint_that_fails_is_completed_with_a_cause(
    client: httpx.Client, job: StandIn
) -> None:
    job.future.set_exception(StorageError("disk full"))
    rid = client.post(f"{JOB}/checkpoints").json()["request-id"]
    answer = client.get(f"{JOB}/checkpoints/{rid}").json()
    assert answer["status"] == {"id": "COMPLETED"}
    cause = answer["operation"]["failureCause"]
    assert (cause["class"], cause["stack-trace"]) == ("StorageError", "disk full")
    assert cause["serialized-throwable"]


def test_asking_twice_under_one_id_starts_one_checkpoint(
    client: httpx.Client, job: StandIn
) -> None:
    for _ in range(2):
        response = client.post(f"{JOB}/checkpoints", json={"triggerId": OTHER, "unknown": 1})
        assert response.json() == {"request-id": OTHER}
    assert job.asked == [False]


def test_a_checkpoint_of_an_unknown_job_is_accepted_and_fails(client: httpx.Client) -> None:
    response = client.post(f"/jobs/{OTHER}/checkpoints")
    assert response.status_code == 202
    answer = client.get(f"/jobs/{OTHER}/checkpoints/{response.json()['request-id']}").json()
    assert answer["operation"]["failureCause"]["stack-trace"] == f"Job {OTHER} not found"


def test_a_job_that_does_not_run_takes_no_checkpoints(client: httpx.Client, job: StandIn) -> None:
    job.now = job_view("FINISHED")
    rid = client.post(f"{JOB}/checkpoints").json()["request-id"]
    cause = client.get(f"{JOB}/checkpoints/{rid}").json()["operation"]["failureCause"]
    assert "FINISHED" in cause["stack-trace"]
    assert job.asked == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"[" * 100_000, 400),
        (b'{"checkpointType": "SOME"}', 400),
        (b'{"triggerId": "../x"}', 400),
        (b'{"checkpointType": "INCREMENTAL"}', 500),
    ],
)
def test_a_wrong_request_for_a_checkpoint_starts_none(
    client: httpx.Client, job: StandIn, body: bytes, status: int
) -> None:
    errors_of(client.post(f"{JOB}/checkpoints", content=body), status)
    assert job.asked == []


def test_results_are_kept_for_five_minutes() -> None:
    now = [0.0]
    operations = Operations(lambda: now[0])
    job = StandIn()
    request = operations.begin(JOB_ID, None, lambda: job.checkpoint(False))
    now[0] = 10 * KEPT_SECONDS
    assert operations.look(JOB_ID, request)["operation"] is None  # it still runs
    job.future.set_result(1)
    now[0] += KEPT_SECONDS - 1
    assert operations.look(JOB_ID, request)["operation"] == {"checkpointId": 1}
    now[0] += 2
    with pytest.raises(RequestRefused):
        operations.look(JOB_ID, request)


# The end of a job


@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", f"{JOB}?mode=cancel"), ("GET", f"{JOB}/yarn-cancel")]
)
def test_a_job_can_be_cancelled_twice(client: httpx.Client, method: str, path: str) -> None:
    for _ in range(2):
        response = client.request(method, path, content=b"{}")
        assert (response.status_code, response.json()) == (202, {})
    assert client.get(f"{JOB}/status").json() == {"status": "CANCELED"}


@pytest.mark.parametrize(
    ("state", "mode", "status"),
    [
        ("FINISHED", "cancel", 409),
        ("FAILED", "cancel", 409),
        ("CREATED", "cancel", 503),
        ("RUNNING", "stop", 308),
        ("RUNNING", "explode", 400),
    ],
)
def test_a_cancellation_that_cannot_be(
    client: httpx.Client, job: StandIn, state: str, mode: str, status: int
) -> None:
    job.now = job_view(state)
    errors_of(client.patch(f"{JOB}?mode={mode}"), status)
    assert job.now.state == state


def test_the_server_listens_on_a_free_port_until_it_is_left(
    job: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN)
    with serving({JOB_ID: job}, "127.0.0.1", 0) as address:
        assert address.token == TOKEN
        found = httpx.get(f"{address.url}/v1/jobs", headers=BEARER, trust_env=False)
        assert found.json() == {"jobs": [{"id": JOB_ID, "status": "RUNNING"}]}
        assert "server" not in found.headers
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address.url}/jobs", headers=BEARER, trust_env=False)
