"""A job under its supervisor, from its first row to its last: what can be done to any job."""

from __future__ import annotations

import fnmatch
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from holdfast.checkpoints.metadata import CheckpointMetadata, decode
from holdfast.cli.client import Client
from holdfast.errors import HoldfastError
from holdfast.server.processes import children
from holdfast.storage.names import is_unfinished
from tests.faults.jobs.leftovers import of_no_checkpoint, stale_work
from tests.faults.jobs.supervised import Supervised

KEPT = ("work", "checkpoints", "sinks", "history", "home")
"""What remains of a job that has ended."""
RETAINED = 3
_DAEMON = b"pyspark.daemon"
SETTINGS = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.num-retained": RETAINED,
    "execution.checkpointing.tolerable-failed-checkpoints": 1000,
    "heartbeat.interval": "300ms",
    "heartbeat.timeout": "8s",
    "holdfast.stuck-timeout": "60s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 100_000,
    "restart-strategy.fixed-delay.delay": "100ms",
}


class Ground(Supervised):
    """Its processes and its files."""

    # Its processes

    def start(self) -> None:
        """Start it, or start it again."""
        self.run(*self.options)

    @property
    def options(self) -> list[str]:
        """Of ``holdfast run``."""
        return []

    def sink(self, name: str) -> IO[bytes]:
        """By way of another process, which can write when the job cannot."""
        with super().sink(name) as file:
            writer = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file)
        assert writer.stdin is not None
        return writer.stdin

    @property
    def supervisor(self) -> subprocess.Popen[bytes]:
        return self.started[-1]

    def stop(self) -> None:
        """As an operator would."""
        self.supervisor.send_signal(signal.SIGTERM)
        assert self.end(self.supervisor) == 128 + signal.SIGTERM, self.words()

    def starting(self, before: int) -> int | None:
        """The runner that came after that one, as soon as it is there."""
        found = [pid for pid in children(self.supervisor.pid) if pid != before]
        return next((pid for pid in found if b"holdfast" in command(pid)), None)

    def python_workers(self) -> list[int]:
        """Those that run tasks in the runner's own JVM."""
        daemons = [pid for pid in self.processes() if _DAEMON in command(pid)]
        return [worker for daemon in daemons for worker in children(daemon)]

    # Its files

    def files(self, *patterns: str) -> list[Path]:
        """Those whose path below the job's directory is like one of these, the newest first.

        A ``*`` stands for slashes too.
        """
        folders = {pattern.partition("/")[0] for pattern in patterns}
        found = _newest_first([self.root / name for name in folders])
        names = {path: str(path.relative_to(self.root)) for path in found}
        return [p for p in found if any(fnmatch.fnmatch(names[p], each) for each in patterns)]

    def completed(self) -> list[CheckpointMetadata]:
        """Checkpoints that can be read, the newest first."""
        found = []
        for path in self.root.glob("checkpoints/*/chk-*/_metadata"):
            with suppress(OSError, HoldfastError):
                found.append(decode(path.read_bytes(), str(path)))
        return sorted(found, key=lambda metadata: metadata.id, reverse=True)

    # What it does

    def progress(self) -> None:
        """Wait until it has come further."""
        before = self.rows()
        self.wait_for(lambda: self._runs() and self.rows() > before)

    def rows(self) -> int:
        """How far it has come."""
        raise NotImplementedError

    def _runs(self) -> bool:
        assert self.supervisor.poll() is None, f"it gave up:\n{self.words()}"
        return True

    def until_it_hurts(self, seconds: float) -> None:
        """Until a checkpoint or a region has failed, or so much time has passed without that."""
        before = self._failed()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._failed() == before:
            time.sleep(0.05)

    def _failed(self) -> tuple[Any, int]:
        records = len(list(self.root.glob("history/*/failures/*")))
        return self._ask("/checkpoints", lambda found: found["counts"]["failed"]), records

    def _ask(self, path: str, take: Callable[[dict[str, Any]], Any]) -> Any:
        for runner in self.registry.running():
            with suppress(HoldfastError, OSError):
                if runner.url is not None:
                    return take(Client(runner).get(path))
        return None

    def check_left_over(self, last: Supervised) -> None:
        """Of all that died nothing remains: no process, no entry, no file."""
        assert last.processes() == []
        assert self.registry.running() == []
        assert [p for p in (self.root / "scratch").rglob("*") if p.is_file()] == []
        assert list((self.root / "home" / "jobs").glob("*")) == []
        found = {path for name in KEPT for path in (self.root / name).rglob("*")}
        assert [path for path in found if is_unfinished(path.name)] == []
        completed = self.completed()
        assert of_no_checkpoint(self.root / "checkpoints", completed) == set()
        assert len(completed) == RETAINED
        assert stale_work(self.root / "work") == []


def _newest_first(folders: list[Path]) -> list[Path]:
    found = []
    for folder in folders:
        for directory, _, names in os.walk(folder):  # it does not mind what is deleted meanwhile
            for name in names:
                path = Path(directory, name)
                with suppress(FileNotFoundError):
                    found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
