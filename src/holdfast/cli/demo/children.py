"""Processes that end with the demo, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from holdfast.errors import EnvironmentProblem
from holdfast.server.processes import session

_TAIL = 15
_GRACE_SECONDS = 10.0
_GLANCE_SECONDS = 0.01


class Child:
    """A process in a session of its own, which all that it starts belong to: runner, JVM, workers.

    ``scratch`` is for its temporary files: a process that is killed leaves them behind.
    """

    def __init__(
        self, command: Sequence[str], directory: Path, scratch: Path, said: Path | None
    ) -> None:
        self._said = said
        output: IO[bytes] | None = said.open("wb") if said else None
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            env={
                **os.environ,
                "TMPDIR": str(scratch),
                "SPARK_LOCAL_DIRS": str(scratch),
                "HOLDFAST_HOME": str(scratch / "home"),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output and subprocess.STDOUT,
            start_new_session=True,
        )
        if output:
            output.close()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """``kill -9`` of everything at once; nothing of it runs any more when this returns."""
        while left := session(self._process.pid):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()

    def stop(self) -> None:
        """Ask it to end and clean up, and insist if it does not."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        self._wait_for_all()
        self.kill()

    def finish(self) -> None:
        """Wait for a good end, its JVM's too; raise with its last words after a bad one."""
        code = self._process.wait()
        self._wait_for_all()
        if code:
            words = self._said.read_text(errors="replace") if self._said else ""
            raise EnvironmentProblem(
                "a process of the demo failed",
                hint="Its last words:\n" + "\n".join(words.splitlines()[-_TAIL:]),
                exit_code=code,
            )

    def _wait_for_all(self) -> None:
        # The JVM is not our child, so there is no other way to wait for it.
        deadline = time.monotonic() + _GRACE_SECONDS
        while session(self._process.pid) and time.monotonic() < deadline:
            time.sleep(_GLANCE_SECONDS)


class Children:
    """Starts processes in ``directory`` and ends those that are left."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        self._directory = directory
        self._scratch = scratch
        self._started: list[Child] = []

    def start(self, command: Sequence[str], said: Path | None = None) -> Child:
        """Start a process; its output goes to the file ``said``, or where ours goes."""
        child = Child(command, self._directory, self._scratch, said)
        self._started.append(child)
        return child

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._started:
            if child.running:
                child.stop()
