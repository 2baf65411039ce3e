"""The one place that joins everything up and runs a job in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.settings import Settings, resolve

if TYPE_CHECKING:
    from holdfast.job import Job
    from holdfast.runtime.running import RunningJob

Watch = Callable[["RunningJob"], None]
"""Shows a job while it runs; returns when it is over, or asks it to stop."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    job_id: str
    state: str
    failure: HoldfastError | None
    checkpoint: str | None
    """The newest completed checkpoint."""


def job_settings(job: Job, arguments: Mapping[str, str], file: Path | None) -> Settings:
    """The settings of a job from all places."""
    return resolve(arguments=arguments, environ=os.environ, file=file, code=job.settings)


def launch(
    job: Job,
    arguments: Mapping[str, str],
    *,
    file: Path | None = None,
    fresh: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """Run a job until it ends.

    1. Check the job and its settings: all problems at once, before Spark starts.
    2. Start Spark, find out where the job stands, start its regions.
    3. Watch until it is over.
    """
    graph = job.graph()
    settings = job_settings(job, arguments, file)
    from holdfast.runtime.coordinator import Hooks
    from holdfast.runtime.running import RunningJob
    from holdfast.spark.job_session import job_session

    spark = job_session(job.name, settings.master, spark_settings(settings), settings.spark)
    hooks = Hooks(dict(job.snapshot_hooks), tuple(job.completion_hooks))
    running = RunningJob(graph, settings, spark, hooks, fresh)
    running.start()
    try:
        (watch or _wait)(running)
    finally:
        running.suspend()
        running.wait()
    latest = running.store.latest
    path = running.store.path_of(latest.id) if latest is not None else None
    return Outcome(running.job_id, running.state.value, running.failure, path)


def spark_settings(settings: Settings) -> dict[str, str]:
    """Settings of the session that follow from the job's."""
    chosen = dict(settings.state_spark)
    if settings.parallelism is not None:
        chosen["spark.sql.shuffle.partitions"] = str(settings.parallelism)
    return chosen


def _wait(running: RunningJob) -> None:
    while not running.wait(1.0):
        pass
