"""Failures and restarts in a line each: what failed, what was done, what comes next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.cli.causes import essence
from holdfast.cli.terminal import counted
from holdfast.cli.times import clock, duration
from holdfast.protocol.records import FailureRecord
from holdfast.server.shapes import own
from holdfast.server.view import JobView

Document = Mapping[str, Any]
_LONGEST = 100
_WHO = re.compile(r"region '[^']*' failed: ")


def brief(failure: Document) -> str:
    """The error in a few words: its own line of the message, if it has one, else the first."""
    name = failure["error"].rpartition(".")[2]
    own_line = re.search(rf"\b{re.escape(name)}: .*", failure["message"])
    text = own_line[0] if own_line else _first_line(failure["message"]) or name
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"


def _first_line(message: str) -> str:
    return _WHO.sub("", essence(message).partition("\n")[0], count=1).strip()


def what_failed(failure: Document) -> str:
    """``region count failed (Recoverable: …)``."""
    who = "the job" if failure["region"] is None else f"region {failure['region']}"
    return f"{who} failed ({failure['kind']}: {brief(failure)})"


def failure_line(failure: Document) -> str:
    """What failed, and what came of it so far."""
    if failure["recovered"] is None:
        return f"{what_failed(failure)}: {failure['decision']}"
    return f"{what_failed(failure)}, restarted after {took(failure)}"


def took(failure: Document) -> str:
    """How long it was until everything ran again; a clock may have been set back meanwhile."""
    seconds = failure["duration"]
    return "-" if seconds is None else duration(max(0.0, seconds))


def next_restart(due: Document, now: float) -> str:
    """``restart 2 of all regions in 3.2 s: …``."""
    who = ", ".join(due["regions"]) or "all regions"
    left = due["at"] - now
    when = f"in {duration(left)}" if left > 0 else "now"
    return f"restart {due['attempt']} of {who} {when}: {due['why']}"


def facts(job: Document, now: float) -> dict[str, str]:
    """What ``holdfast info`` says about failures."""
    known, due = job["failures"], job["next_restart"]
    latest = known["latest"]
    counts = f"{known['total']:,}, {counted(job['restarts'], 'restart')} in this run"
    return {
        "next restart": next_restart(due, now) if due else "",
        "failures": counts if known["total"] else "none",
        "last failure": f"{clock(latest['at'])}: {failure_line(latest)}" if latest else "",
    }


# While a job runs


def restart_line(view: JobView) -> str | None:
    """The restart that is due, if there is one."""
    due = view.next_restart
    return None if due is None else next_restart(asdict(due), view.now)


def latest_line(view: JobView) -> str | None:
    """The newest failure of this run, if there is one; those that joined it are not told."""
    own_failures = [each for each in view.failures_of_run() if each.merged_into is None]
    return failure_line(own.failure(own_failures[-1])) if own_failures else None


@dataclass(frozen=True, slots=True)
class Happened:
    """Something has failed, or everything runs again after it."""

    event: str
    record: FailureRecord

    @property
    def line(self) -> str | None:
        """For people. What was over before it could be told is one line and not two."""
        if self.event == "failure" and self.record.recovered is not None:
            return None
        return failure_line(own.failure(self.record))

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        record = self.record
        if self.event == "failure":
            return own.failure(record)
        return {
            "number": record.number,
            "region": record.region,
            "at": record.recovered,
            "duration": record.duration,
        }


class FailureNews:
    """What has failed or recovered since the last look. What an earlier run left is not new."""

    def __init__(self, first: JobView) -> None:
        before = [each for each in first.failures if each.at < first.started]
        self._failed = {each.number for each in before}
        self._recovered = {each.number for each in before if each.recovered is not None}

    def since(self, view: JobView) -> Iterator[Happened]:
        """Each failure once, and once more when it has been recovered from."""
        for record in view.failures:
            if record.number not in self._failed:
                self._failed.add(record.number)
                yield Happened("failure", record)
            if record.recovered is not None and record.number not in self._recovered:
                self._recovered.add(record.number)
                yield Happened("recovered", record)
