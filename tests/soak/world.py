"""Everything that can be hurt: a job under its supervisor, its files, its database, its clock."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from holdfast.checkpoints.metadata import CheckpointMetadata, decode
from holdfast.cli.client import Client
from holdfast.errors import HoldfastError
from holdfast.server.processes import children
from holdfast.storage.names import is_unfinished
from tests.faults.jobs.judge import at_checkpoint, check_output, everything
from tests.faults.jobs.specs import JobSpec, RegionSpec, SourceSpec, hurried
from tests.faults.jobs.stores import check_all
from tests.faults.jobs.supervised import Supervised
from tests.services.postgres_server import PostgresServer
from tests.services.spark_cluster import SparkCluster
from tests.soak.clock import FakeClock

KEPT = ("work", "checkpoints", "sinks", "history", "home")
"""What remains of a job that has ended."""
_DAEMON = b"pyspark.daemon"
SETTINGS = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.num-retained": 3,
    "execution.checkpointing.tolerable-failed-checkpoints": 1000,
    "heartbeat.interval": "300ms",
    "heartbeat.timeout": "8s",
    "holdfast.stuck-timeout": "60s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 100_000,
    "restart-strategy.fixed-delay.delay": "100ms",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def spec(database: str) -> JobSpec:
    """Two sources, a function in Python, a union that is counted; into files and a database.

    The rows come so slowly that they do not end before the last fault.
    """
    return JobSpec(
        (SourceSpec("fast", 60_000, 200, 60), SourceSpec("slow", 15_000, 60, 15)),
        (
            RegionSpec("left", "python", ("fast",)),
            RegionSpec("right", "pass", ("slow",), 4),
            RegionSpec("both", "count", ("left", "right")),
        ),
        SETTINGS,
        {"postgres": database},
    )


class World(Supervised):
    """One job, from its first row to its last."""

    def __init__(self, root: Path, postgres: PostgresServer, clock: FakeClock) -> None:
        super().__init__(root, spec(postgres.new_database()))
        self.postgres = postgres
        self.clock = clock
        self.environ |= clock.environ
        self.cluster: SparkCluster | None = None
        """Where it runs, if not in its own JVM."""

    # Its processes

    def start(self) -> None:
        """Start it, or start it again."""
        self.run(*(["--master", self.cluster.master] if self.cluster else []))

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
        return next((pid for pid in found if b"holdfast" in _command(pid)), None)

    def python_workers(self) -> list[int]:
        """Those that run tasks in the runner's own JVM."""
        daemons = [pid for pid in self.processes() if _DAEMON in _command(pid)]
        return [worker for daemon in daemons for worker in children(daemon)]

    # Its files

    def working_files(self) -> list[Path]:
        """The newest first."""
        return _newest_first(self.root / "work")

    def records(self) -> list[Path]:
        """Those that are not of an attempt: who the job is, who runs it, ids of checkpoints."""
        return [path for path in self.working_files() if "/attempt-" not in str(path)]

    def checkpoint_files(self) -> list[Path]:
        """All that are kept, the newest first."""
        return _newest_first(self.root / "checkpoints")

    def completed(self) -> list[CheckpointMetadata]:
        """Checkpoints that can be read, the newest first."""
        found = []
        for path in self.root.glob("checkpoints/*/chk-*/_metadata"):
            with suppress(OSError, HoldfastError):
                found.append(decode(path.read_bytes(), str(path)))
        return sorted(found, key=lambda metadata: metadata.id, reverse=True)

    # What it does

    def progress(self) -> None:
        """Wait for a checkpoint with more rows than any has now."""
        before = self._rows()
        self.wait_for(lambda: self._runs() and self._rows() > before)

    def _rows(self) -> int:
        """Rows of the slowest source in the newest checkpoint."""
        for newest in self.completed():
            return min(at_checkpoint(self.spec, newest).reads.values(), default=0)
        return 0

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

    # The end

    def finish(self) -> None:
        """Let all rows come at once, and compare with the recount."""
        self.stop()
        last = Supervised(self.root, hurried(self.spec))
        last.environ = self.environ
        try:
            code = last.end(last.run(*(["--master", self.cluster.master] if self.cluster else [])))
            assert code == 0, last.words()
            self.check_left_over(last)
        finally:
            last.kill_everything()
        check_output(self.spec, self.root, everything(self.spec))
        check_all(self.spec, everything(self.spec))

    def check_left_over(self, last: Supervised) -> None:
        """Of all that died nothing remains: no process, no entry, no file."""
        assert last.processes() == []
        assert self.registry.running() == []
        assert [p for p in (self.root / "scratch").rglob("*") if p.is_file()] == []
        assert list((self.root / "home" / "jobs").glob("*")) == []
        found = {path for name in KEPT for path in (self.root / name).rglob("*")}
        assert [path for path in found if is_unfinished(path.name)] == []
        completed = {f"chk-{metadata.id}" for metadata in self.completed()}
        assert {path.name for path in self.root.glob("checkpoints/*/chk-*")} == completed
        assert len(completed) == SETTINGS["execution.checkpointing.num-retained"]


def _newest_first(folder: Path) -> list[Path]:
    found = []
    for directory, _, names in os.walk(folder):  # it does not mind what is deleted meanwhile
        for name in names:
            path = Path(directory, name)
            with suppress(FileNotFoundError):
                found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@contextmanager
def world(root: Path, postgres: PostgresServer, clock: FakeClock) -> Iterator[World]:
    """A job that runs; everything of it is gone at the end."""
    found = World(root, postgres, clock)
    try:
        found.start()
        yield found
    finally:
        found.kill_everything()
