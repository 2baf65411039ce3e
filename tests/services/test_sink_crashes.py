"""One job writes the same rows to files, SQLite, PostgreSQL and MariaDB, and dies at every step.

Each death is followed by a restart, some of which die in the recovery too, and between some of them
the database servers are killed. Whatever happens: nothing is visible that no completed checkpoint
covers, nothing twice, and in the end every row is there once and no transaction is left behind.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.jobs.judge import Recount, at_checkpoint, check_output, everything
from tests.faults.jobs.process import JobProcess
from tests.faults.jobs.specs import JobSpec, RegionSpec, SourceSpec, chain, hurried
from tests.faults.jobs.stores import check_all, check_stores
from tests.faults.test_job_crash_points import check_visible
from tests.services.mariadb_server import MariaDbServer
from tests.services.postgres_server import PostgresServer

POINTS = [
    "precommit/postgres-left:before",
    "begin/postgres-left:after",
    "invoke/mysql-both:after",
    "prepare/postgres-both:before",
    "prepare/postgres-left:after",
    "prepare/mysql-left:after",
    "precommit/mysql-both:after",
    "precommit/sqlite-left:after",
    "metadata:before",
    "store:after",
    "commit/postgres-left:before",
    "commit/mysql-left:before",
    "part/postgres-both:after",
    "part/mysql-both:after",
    "write/sqlite-left:before",
    "write/sqlite-both:after",
    "commit/sqlite-left:after",
    "commit/postgres-both:after",
]
RECOVERY = {
    "prepare/mysql-left:after": "abort/mysql-left:before",
    "prepare/postgres-left:after": "abort/postgres-left:after",
    "store:after": "recover/postgres-left:after",
    "commit/mysql-left:before": "recover/mysql-left:after",
    "write/sqlite-left:before": "write/sqlite-left:after",
}
"""Where the restart after a death dies too."""
SERVERS_DIE_AFTER = {"precommit/mysql-both:after", "commit/postgres-left:before"}


def spec(stores: dict[str, str]) -> JobSpec:
    """The slower source has rows for 140 seconds: each of 23 runs reads for some before it dies."""
    job = chain(40_000)
    slower = tuple(
        replace(source, rows_per_second=source.rows_per_second / 10, rows_per_batch=100)
        for source in job.sources
    )
    settings = {"execution.checkpointing.num-retained": 2, "execution.checkpointing.interval": "1s"}
    return replace(job, sources=slower, settings=settings, stores=stores)


@pytest.mark.timeout(1200)
def test_a_job_with_four_stores_that_dies_at_every_step_leaves_every_row_once(
    postgres: PostgresServer, mariadb: MariaDbServer, tmp_path: Path
) -> None:
    stores = {
        "postgres": postgres.new_database(),
        "mysql": mariadb.new_database(),
        "sqlite": str(tmp_path / "rows.db"),
    }
    job = spec(stores)
    process = JobProcess(job, tmp_path / "job")
    for point in POINTS:
        for deadly in filter(None, (point, RECOVERY.get(point))):
            die(process, deadly)
            check_visible(process)
        if point in SERVERS_DIE_AFTER:
            for server in (postgres, mariadb):
                server.kill()
                server.start()
    last = JobProcess(hurried(job), process.out)
    last.start()
    last.finish()
    check_output(job, last.out, everything(job))
    check_all(job, everything(job), last.job_id)


class UnstagedProcess(JobProcess):
    """Every batch is its own checkpoint, and its rows are nowhere but in the sink."""

    module = "tests.services.unstaged_job"


UNSTAGED = [
    "precommit/out:before#2",
    "unstaged/out:before#2",  # behind precommit
    "unstaged/out:after#2",
    "store:before#2",
    "commit/out:before#2",  # behind store
    "commit/out:after#2",
]
"""The second time: every run first goes on with what the one before has left."""
UNSTAGED_RECOVERY = {"unstaged/out:after#2": "recover/out:after"}


@pytest.mark.timeout(600)
def test_a_job_that_does_not_stage_its_rows_dies_at_every_step_and_leaves_every_row_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    job = JobSpec(
        (SourceSpec("a", 20_000, 50, 400),),
        (RegionSpec("left", "pass", ("a",)),),
        {"execution.checkpointing.num-retained": 2, "holdfast.checkpoint.every-batch": "true"},
        {"postgres": postgres.new_database()},
    )
    process = UnstagedProcess(job, tmp_path / "job")
    for point in UNSTAGED:
        for deadly in filter(None, (point, UNSTAGED_RECOVERY.get(point))):
            die(process, deadly)
    last = UnstagedProcess(hurried(job), process.out)
    last.start()
    last.finish()
    check_all(job, everything(job), last.job_id)


def die(process: JobProcess, point: str) -> None:
    print(point, flush=True)
    process.start(crash_at=point)
    assert process.wait() == -9, f"{point} was not reached:\n{process.words()}"
    completed = process.checkpoints()
    recounts = [Recount(process.spec, {})] * 2
    recounts += [at_checkpoint(process.spec, found) for found in completed[-2:]]
    check_stores(process.spec, recounts[-2], recounts[-1])
