"""Jobs and plain queries of the benchmark, run in one Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import holdfast as hf
from holdfast.launch import spark_settings
from holdfast.runtime.completion import Hooks
from holdfast.runtime.running import RunningJob
from holdfast.settings import resolve
from holdfast.spark.job_session import job_session
from holdfast.spark.progress import BatchListener

GLANCE = 0.005


@contextmanager
def running(job: hf.Job, home: Path, settings: Mapping[str, object]) -> Iterator[RunningJob]:
    """A started job; it is stopped in the end."""
    code = {"holdfast.work.dir": str(home / "work"), **job.settings, **settings}
    resolved = resolve(arguments={}, environ={}, file=None, code=code)
    session = job_session("bench", None, spark_settings(resolved), resolved.spark)
    run = RunningJob(job.graph(), resolved, session, Hooks())
    run.start()
    try:
        yield run
    finally:
        run.suspend()
        run.wait()
    if run.failure is not None:
        raise run.failure


def wait_for(condition: Callable[[], bool], run: RunningJob | None = None) -> None:
    """Look again and again, but not busily."""
    while not condition():
        if run is not None and run.failure is not None:
            raise run.failure
        time.sleep(GLANCE)


def plain_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session of its own, with settings."""
    session = spark.newSession()
    for key, value in settings.items():
        session.conf.set(key, value)
    return session


class RowsRead:
    """Counts the rows of plain queries as the jobs' own are counted: by hearing of each batch."""

    def __init__(self, session: SparkSession) -> None:
        self._rows: dict[str, int] = {}
        self._listener = BatchListener(session, self._on_batch, _ignore)

    def _on_batch(self, run: str, _: int, report: dict[str, Any]) -> None:
        self._rows[run] = self._rows.get(run, 0) + int(report["numInputRows"])

    def of(self, query: Any) -> int:
        """Rows that a query has read in all batches."""
        return self._rows.get(str(query.runId), 0)

    def close(self) -> None:
        """Count no more."""
        self._listener.close()


def _ignore(*_: object) -> None:
    pass


def parquet_writer(out: Path) -> Callable[[DataFrame, int], None]:
    """What people write by hand: each batch appended to a directory."""

    def write(rows: DataFrame, _: int) -> None:
        rows.write.mode("append").parquet(str(out))

    return write
