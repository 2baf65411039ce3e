"""Which jobs run on this machine: one file per runner, ``$HOLDFAST_HOME/jobs/<job-id>.json``.

A file holds the token of its runner, so it is for its owner alone. A runner that was killed leaves
its file behind; whoever finds such a file ignores and removes it. A supervisor that waits to start
a runner again has the file in its place.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import EnvironmentProblem
from holdfast.server.processes import Process

HOME_VARIABLE = "HOLDFAST_HOME"
_SUFFIX = ".json"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of a job's process that is due, or under way."""

    at: float
    attempt: int
    why: str
    """What made it necessary."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A process that runs a job, and how to talk to it.

    While a job waits for a restart, ``process`` is its supervisor, which no runner is kept out by
    that this supervisor has started.
    """

    job_id: str
    name: str
    work_dir: str
    started: float
    process: Process
    jvm: Process | None = None
    url: str | None = None
    """Where its server is, once it is there."""
    token: str | None = None
    supervisor: Process | None = None
    """Who starts it again, if anybody does."""
    restart: Restart | None = None
    history: str | None = None
    """Where its failures are on record, while nobody can be asked."""

    @property
    def is_restarting(self) -> bool:
        """Whether its process died and the next one cannot be talked to yet."""
        return self.restart is not None and self.url is None

    def keeps_out(self, other: Runner) -> bool:
        """Whether the other one must not run the job too."""
        return self.process not in (other.process, other.supervisor) and self.process.runs


def home() -> Path:
    """The user's own directory for Holdfast."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".holdfast"


class Registry:
    """The runners of one user."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or home() / "jobs"

    def path_of(self, job_id: str) -> Path:
        """The file of a job."""
        return self._directory / f"{job_id}{_SUFFIX}"

    def write(self, runner: Runner) -> None:
        """Put a runner on record, all at once."""
        try:
            self._write(runner)
        except OSError as error:
            raise EnvironmentProblem(
                f"the runner cannot be put on record: {error.strerror or error}",
                hint=f"Set {HOME_VARIABLE} to a directory that you can write to.",
                path=self._directory,
            ) from error

    def _write(self, runner: Runner) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory.chmod(0o700)
        # mkstemp makes files that only their owner can read.
        handle, name = tempfile.mkstemp(dir=self._directory, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(encode(runner))
            Path(name).replace(self.path_of(runner.job_id))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def remove(self, runner: Runner) -> None:
        """Take a runner off record, unless the file is another's by now."""
        found = self.find(runner.job_id)
        if found is not None and found.process == runner.process:
            self.path_of(runner.job_id).unlink(missing_ok=True)

    def find(self, job_id: str) -> Runner | None:
        """What is on record for a job, whether it still runs or not."""
        with suppress(FileNotFoundError):
            return decode(self.path_of(job_id).read_bytes())
        return None

    def running(self) -> list[Runner]:
        """Every runner that runs, the oldest first. What others left behind is removed."""
        found = []
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            runner = self.find(path.name.removesuffix(_SUFFIX))
            if runner is None or not runner.process.runs:
                self._forget(path, runner)
            else:
                found.append(runner)
        return sorted(found, key=lambda runner: runner.started)

    def _forget(self, path: Path, runner: Runner | None) -> None:
        # As long as its JVM runs, the next runner has to know of it.
        if runner is None or runner.jvm is None or not runner.jvm.runs:
            path.unlink(missing_ok=True)


def encode(runner: Runner) -> bytes:
    """The contents of a file."""
    return json.dumps(asdict(runner), indent=1).encode()


def decode(data: bytes) -> Runner | None:
    """The inverse of ``encode``; ``None`` if it is not that."""
    try:
        item = json.loads(data)
        made = {
            "process": _process(item["process"]),
            "jvm": _if_there(_process, item["jvm"]),
            "supervisor": _if_there(_process, item.get("supervisor")),
            "restart": _if_there(_restart, item.get("restart")),
        }
        return Runner(**{**item, **made})
    except (ValueError, KeyError, TypeError):
        return None


def _process(item: dict[str, Any]) -> Process:
    return Process(int(item["pid"]), int(item["started"]))


def _restart(item: dict[str, Any]) -> Restart:
    return Restart(float(item["at"]), int(item["attempt"]), str(item["why"]))


def _if_there(read: Callable[[dict[str, Any]], T], item: dict[str, Any] | None) -> T | None:
    return None if item is None else read(item)
