"""Everything that can be hurt: a job under its supervisor, its files, its database, its clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.jobs.judge import at_checkpoint, check_output, everything
from tests.faults.jobs.leftovers import segments
from tests.faults.jobs.specs import JobSpec, RegionSpec, SourceSpec, hurried
from tests.faults.jobs.stores import check_all
from tests.faults.jobs.supervised import Supervised
from tests.faults.jobs.warm import quick_java
from tests.services.postgres_server import PostgresServer
from tests.services.spark_cluster import SparkCluster
from tests.soak import ground
from tests.soak.clock import FakeClock
from tests.soak.ground import Ground

SETTINGS = {
    **ground.SETTINGS,
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.data-inline-threshold": "0b",  # so that there are files to lose
    "spark.executor.memory": "512m",
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
        {**SETTINGS, "spark.executor.extraJavaOptions": quick_java()},
        {"postgres": database},
    )


class World(Ground):
    """The job with a database."""

    def __init__(self, root: Path, postgres: PostgresServer, clock: FakeClock) -> None:
        super().__init__(root, spec(postgres.new_database()))
        self.postgres = postgres
        self.clock = clock
        self.environ |= clock.environ
        self.cluster: SparkCluster | None = None
        """Where it runs, if not in its own JVM."""

    @property
    def options(self) -> list[str]:
        return ["--master", self.cluster.master] if self.cluster else []

    def rows(self) -> int:
        """Rows of the slowest source in the newest checkpoint."""
        for newest in self.completed():
            return min(at_checkpoint(self.spec, newest).reads.values(), default=0)
        return 0

    def finish(self) -> None:
        """Let all rows come at once, and compare with the recount."""
        self.stop()
        last = Supervised(self.root, hurried(self.spec))
        last.environ = self.environ
        try:
            code = last.end(last.run(*self.options))
            assert code == 0, last.words()
            self.check_left_over(last)
            assert segments(self.root / "work") == [], "all were read and committed"
        finally:
            last.kill_everything()
        check_output(self.spec, self.root, everything(self.spec))
        check_all(self.spec, everything(self.spec))


@contextmanager
def world(root: Path, postgres: PostgresServer, clock: FakeClock) -> Iterator[World]:
    """A job that runs; everything of it is gone at the end."""
    found = World(root, postgres, clock)
    try:
        found.start()
        yield found
    finally:
        found.kill_everything()
