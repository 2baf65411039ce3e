"""How long the tasks of a batch took, from Spark's own records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

_NEWEST = 60
"""Spark jobs to look through; those of a batch that has just ended are among the newest."""


@dataclass(frozen=True, slots=True)
class TaskTime:
    """One task of the batch's last stage."""

    index: int
    seconds: float
    finished: float
    """Seconds since 1970."""


def task_times(spark: SparkSession, run_id: str, batch: int) -> tuple[TaskTime, ...]:
    """The tasks of the last stage of a batch; empty if Spark has forgotten them."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    stages = _stages(store, run_id, f"batch = {batch}")
    if not stages:
        return ()
    tasks = store.taskList(max(stages), 0, 1 << 20)
    return tuple(_task(tasks.apply(at)) for at in range(tasks.size()))


def _stages(store: Any, run_id: str, batch: str) -> list[int]:
    jobs = store.jobsList(None)  # newest first
    for at in range(min(jobs.size(), _NEWEST)):
        job = jobs.apply(at)
        group, text = job.jobGroup(), job.description()
        ours = group.isDefined() and group.get() == run_id
        # Spark says "batch = 7" on a line of its own.
        if ours and text.isDefined() and batch in text.get().split("\n"):
            ids = job.stageIds()
            return [int(ids.apply(n)) for n in range(ids.size())]
    return []


def _task(task: Any) -> TaskTime:
    launched = task.launchTime().getTime() / 1000
    duration = task.duration()
    seconds = duration.get() / 1000 if duration.isDefined() else 0.0
    return TaskTime(int(task.index()), seconds, launched + seconds)
