"""Talking to jobs that run on this machine: finding them, asking them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import EnvironmentProblem, HoldfastError, UsageError
from holdfast.server.registry import Registry, Runner

if TYPE_CHECKING:
    import httpx

_TIMEOUT = 30.0
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5


class UnknownJob(UsageError):
    """No running job has this name or id."""

    code = "UNKNOWN_JOB"


class Unreachable(EnvironmentProblem):
    """The runner does not answer; it may have ended just now."""

    code = "UNREACHABLE"
    retryable = True


class RequestFailed(HoldfastError):
    """The runner could not do what it was asked."""

    code = "REQUEST_FAILED"


def find_job(name: str) -> Client:
    """The running job of this name, id, or unique beginning of an id."""
    runners = Registry().running()
    exact = [r for r in runners if name in (r.name, r.job_id)]
    found = exact or [r for r in runners if len(name) >= 2 and r.job_id.startswith(name)]
    if len(found) == 1:
        return Client(found[0])
    if found:
        raise UnknownJob(f"{name!r} fits several running jobs", hint=f"Say which: {_list(found)}.")
    hint = f"Running: {_list(runners)}." if runners else "No job is running here."
    raise UnknownJob(f"no running job is called {name!r}", hint=hint)


def _list(runners: list[Runner]) -> str:
    return ", ".join(f"{runner.name} ({runner.job_id})" for runner in runners)


@dataclass(frozen=True, slots=True)
class Client:
    """Asks one runner about its job."""

    runner: Runner

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Look at something below ``/jobs/<id>``."""
        return self._ask("GET", path, params=query)

    def own(self) -> dict[str, Any]:
        """Everything about the job."""
        return self.get("/holdfast")

    def trigger_checkpoint(self, full: bool) -> int:
        """Take a checkpoint, wait for it, return its id."""
        kind = {"checkpointType": "FULL" if full else "CONFIGURED"}
        request = self._ask("POST", "/checkpoints", json=kind)["request-id"]
        answer = poll(
            lambda: self.get(f"/checkpoints/{request}"),
            lambda found: found["status"]["id"] == "COMPLETED",
        )
        operation = answer["operation"]
        if cause := operation.get("failureCause"):
            raise RequestFailed(cause["stack-trace"], job=self.runner.name)
        return int(operation["checkpointId"])

    def transactions(self) -> dict[str, Any]:
        """What sinks have neither committed nor aborted."""
        return self.get("/holdfast/transactions")

    def commit_now(self, sink: str | None) -> dict[str, Any]:
        """Let sinks that wait for their next try to commit make it now."""
        chosen = {} if sink is None else {"sink": sink}
        return self._ask("POST", "/holdfast/transactions/commit", json=chosen)

    def cancel(self) -> str:
        """End the job, wait until it has; returns its last state."""
        self._ask("PATCH", "", params={"mode": "cancel"})
        return str(poll(self._state, lambda state: state in ("CANCELED", "FAILED", "FINISHED")))

    def _state(self) -> str:
        try:
            return str(self.get("/status")["status"])
        except Unreachable:
            return "CANCELED" if not self.runner.process.runs else "CANCELLING"

    def _ask(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        import httpx

        url, token = self.runner.url, self.runner.token
        if url is None:
            raise Unreachable("the job is still starting", job=self.runner.name)
        try:
            # Environment variables name proxies, which have no business here.
            with httpx.Client(trust_env=False, timeout=_TIMEOUT) as http:
                headers = {"Authorization": f"Bearer {token}"}
                target = f"{url}/jobs/{self.runner.job_id}{path}"
                return _document(http.request(method, target, headers=headers, **given))
        except (httpx.TransportError, ValueError) as error:
            raise Unreachable(
                f"the job does not answer: {error}",
                hint="It may have ended just now; `holdfast list` shows what runs.",
                job=self.runner.name,
                url=url,
            ) from error


def _document(response: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = response.json()
    if set(found) == {"errors"}:
        raise RequestFailed("; ".join(found["errors"]), status=response.status_code)
    return found


def poll(look: Callable[[], Any], done: Callable[[Any], bool]) -> Any:
    """Look, ever less often, until it is done; returns what was seen last."""
    pause = _FIRST_WAIT
    while not done(seen := look()):
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_WAIT)
    return seen
