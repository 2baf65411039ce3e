"""Processes that are started to be killed, and what they leave in their query logs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.server.processes import session

GLANCE = 0.01
PATIENCE = 300.0
_HOME = "holdfast-home"


class Victim:
    """A command that is run again and again in one directory, each time with all it starts."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        self.home = home
        self.said = home / "said.txt"
        """What the command has printed, in all its lives."""
        self._command = command
        self._scratch = home / "scratch"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environ(self) -> dict[str, str]:
        """Its own registry of jobs, and a place for what Spark leaves when it is killed."""
        scratch = str(self._scratch)
        own = {"HOLDFAST_HOME": str(self.home / _HOME), "TMPDIR": scratch}
        return {**os.environ, **own, "SPARK_LOCAL_DIRS": scratch}

    @property
    def registry(self) -> Path:
        """Where its runners are on record."""
        return self.home / _HOME / "jobs"

    def start(self) -> None:
        """In a session of its own, by which everything is found that it starts."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        with self.said.open("ab") as said:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.home,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def kill(self) -> None:
        """``kill -9`` of everything; returns when nothing of it is left."""
        assert self._process is not None
        while left := session(self._process.pid):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(GLANCE)
        self._process.wait()

    def end(self) -> None:
        """Kill it and remove what Spark had on disk for itself."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Look again and again; a process that ends by itself, or takes for ever, is an error."""
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while not condition():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                why = "did not come so far" if code is None else f"ended with {code}"
                raise RuntimeError(f"{self._command} {why}:\n{self.said.read_text()[-4000:]}")
            time.sleep(GLANCE)


def newest_batch(log: Path) -> int:
    """The newest batch that a query has committed; the one directory that tells is listed."""
    try:
        names = [path.name for path in (log / "commits").iterdir()]
    except FileNotFoundError:
        return -1
    return max((int(name) for name in names if name.isdigit()), default=-1)
