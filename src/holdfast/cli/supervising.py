"""``holdfast run`` as a supervisor: what people and programs hear when a runner dies."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from holdfast.cli.terminal import err
from holdfast.protocol.restarts import RestartIn
from holdfast.server.registry import Registry
from holdfast.supervision.messages import Claimed
from holdfast.supervision.outside import System
from holdfast.supervision.supervisor import Supervisor, Telling


def supervise(command: Sequence[str], as_json: bool, again: str) -> int:
    """Keep a runner going; returns the exit code, or raises why it does not go on."""
    system = System(command)
    telling: Telling = Events() if as_json else Lines(again)
    with system.answering():
        return Supervisor(system, telling, Registry()).run()


class Lines:
    """For people: a line each, on stderr. ``again`` is the command that goes on with the job."""

    def __init__(self, again: str) -> None:
        self._again = again

    def restarting(self, _: Claimed | None, why: str, restart: RestartIn) -> None:
        """A runner died."""
        _mend_terminal()
        _say(f"{why}; restart {restart.attempt} in {restart.seconds:.1f} s")

    def failed(self, _: Claimed | None) -> None:
        """Why is raised, and told by whoever catches it."""
        _mend_terminal()

    def stopped(self, _: Claimed | None, number: int) -> None:
        """No runner is there."""
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        _say(f"stopped by {name} before the restart; the next run goes on: {self._again}")


class Events:
    """For programs: a JSON object per line, on stdout."""

    def restarting(self, job: Claimed | None, why: str, restart: RestartIn) -> None:
        """A runner died."""
        _print(
            {
                "event": "restart",
                "job": job and job.job_id,
                "at": time.time() + restart.seconds,
                "attempt": restart.attempt,
                "delay": restart.seconds,
                "cause": why,
                "strategy": restart.why,
            }
        )

    def failed(self, job: Claimed | None) -> None:
        """The job is over."""
        _print({"event": "end", "job": job and job.job_id, "state": "FAILED", "path": None})

    def stopped(self, job: Claimed | None, _: int) -> None:
        """No runner is there."""
        _print({"event": "end", "job": job and job.job_id, "state": "SUSPENDED", "path": None})


def _mend_terminal() -> None:
    """A runner that was killed in the middle of a picture has left the cursor hidden."""
    with suppress(OSError):
        if sys.stderr.isatty():
            err().show_cursor(True)


# The terminal may be gone, or whoever has read: the job is not to end for that.


def _say(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _print(item: dict[str, Any]) -> None:
    with suppress(OSError):
        sys.stdout.write(json.dumps(item) + "\n")
        sys.stdout.flush()
