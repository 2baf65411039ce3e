"""One runner per job: whoever starts a job claims it first.

Two would write into the same query logs. The registry knows the runners of one user; a lock in the
working directory, where that is local, also keeps out those of others. A runner that was killed may
leave its JVM, which goes on writing for a moment, so its successor waits for that too.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from holdfast.errors import EnvironmentProblem, UsageError
from holdfast.server.processes import Process
from holdfast.server.registry import Registry, Runner, decode, encode

LOCK = "runner.lock"
_JVM_PATIENCE = 60.0
_GLANCE_SECONDS = 0.05


class AlreadyRunning(UsageError):
    """Another process runs the job."""

    code = "ALREADY_RUNNING"


class JvmRemains(EnvironmentProblem):
    """The JVM of an earlier run does not end."""

    code = "JVM_REMAINS"
    retryable = True


class Claim:
    """The right to run a job, for the life of this process; others read in it whom to talk to."""

    def __init__(self, runner: Runner, registry: Registry, lock: _Lock | None) -> None:
        self._runner = runner
        self._registry = registry
        self._lock = lock
        self._record(runner)

    def spark_started(self, jvm: Process | None) -> None:
        """From now on the JVM writes too."""
        self._record(replace(self._runner, jvm=jvm))

    def reachable(self, url: str, token: str) -> None:
        """From now on others can talk to this runner."""
        self._record(replace(self._runner, url=url, token=token, restart=None))

    def _record(self, runner: Runner) -> None:
        self._runner = runner
        if self._lock is not None:
            # Others may read it, so without the token.
            self._lock.write(encode(replace(runner, token=None)))
        self._registry.write(runner)

    def withdraw(self) -> None:
        """Nothing writes for this job any more."""
        if self._lock is not None:
            self._lock.write(b"")
        self._registry.remove(self._runner)


@contextmanager
def claim(
    runner: Runner,
    work: Path | None,
    registry: Registry,
    *,
    own_jvm: Process | None = None,
    patience: float = _JVM_PATIENCE,
) -> Iterator[Claim]:
    """Claim a job for as long as this lasts.

    1. Refuse if another live runner has it, by the lock in ``work`` or by the registry.
    2. Wait for the JVM of a dead one; ``own_jvm`` is ours and needs no waiting for.
    3. Put this runner on record.

    When it is left by an interruption, something may still be writing: the record then stays, for
    the next runner to judge.
    """
    lock = None if work is None else _Lock(work / LOCK)
    try:
        earlier = [found for found in (lock and lock.read(), registry.find(runner.job_id)) if found]
        _refuse_others(runner, earlier)
        for jvm in {found.jvm for found in earlier} - {None, own_jvm}:
            assert jvm is not None
            _wait_for_end(jvm, patience)
        claimed = Claim(runner, registry, lock)
        try:
            yield claimed
        except Exception:
            claimed.withdraw()
            raise
        claimed.withdraw()
    finally:
        if lock is not None:
            lock.close()


def holder(job_id: str, work: Path | None, registry: Registry) -> Runner | None:
    """The live process that has claimed a job, if there is one. The claim is left alone."""
    found = [registry.find(job_id)]
    if work is not None:
        with suppress(OSError):
            found.append(decode((work / LOCK).read_bytes()))
    return next((runner for runner in found if runner and runner.process.runs), None)


def _refuse_others(runner: Runner, earlier: list[Runner]) -> None:
    for found in earlier:
        if found.keeps_out(runner):
            raise _already_running(found)


def _already_running(found: Runner) -> AlreadyRunning:
    return AlreadyRunning(
        "the job is running already",
        hint=f"Stop it first: holdfast cancel {found.name}, or Ctrl-C where it runs.",
        job=found.name,
        pid=found.process.pid,
    )


def _wait_for_end(jvm: Process, patience: float) -> None:
    deadline = time.monotonic() + patience
    while jvm.runs:
        if time.monotonic() > deadline:
            raise JvmRemains(
                "the JVM of an earlier run is still there and may be writing",
                hint=f"Look at it and end it: kill {jvm.pid}",
                pid=jvm.pid,
            )
        time.sleep(_GLANCE_SECONDS)


class _Lock:
    """A locked file. The system unlocks it when the process ends, however that happens."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            found = self.read()
            os.close(self._file)
            if found is not None:
                raise _already_running(found) from error
            raise AlreadyRunning("another process is starting the job", lock=path) from error
        except OSError:  # a file system without locks: the registry has to do
            pass

    def read(self) -> Runner | None:
        """What the last one to hold it has written."""
        return decode(os.pread(self._file, os.fstat(self._file).st_size, 0))

    def write(self, data: bytes) -> None:
        """Replace the contents."""
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))

    def close(self) -> None:
        """Unlock."""
        os.close(self._file)
