"""Regions as Flink's vertices."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from holdfast.server.shapes.numbers import milliseconds, moment, spread
from holdfast.server.view import JobView, RegionView

EXECUTION_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "INITIALIZING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
)


def vertex_id(uid: str) -> str:
    """The 32 hex digits that stand for a region: the MD5 of its uid, so they never change."""
    return hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()


def find_region(view: JobView, vertex: str) -> RegionView | None:
    """The region that a vertex id stands for."""
    return next((region for region in view.regions if vertex_id(region.uid) == vertex), None)


def state_counts(regions: tuple[RegionView, ...]) -> dict[str, int]:
    """How many vertices are in each state."""
    found = Counter(region.status for region in regions)
    return {state: found[state] for state in EXECUTION_STATES}


def vertex(view: JobView, region: RegionView) -> dict[str, Any]:
    """An entry of ``vertices`` in the details of a job."""
    tasks = dict.fromkeys(EXECUTION_STATES, 0)
    tasks[region.status] = region.parallelism
    return {
        "id": vertex_id(region.uid),
        "slotSharingGroupId": view.id,
        "name": region.uid,
        "maxParallelism": region.parallelism,
        "parallelism": region.parallelism,
        "status": region.status,
        **_times(view),
        "tasks": tasks,
        "metrics": metrics(region),
    }


def metrics(region: RegionView) -> dict[str, Any]:
    """What is known of a region's traffic; bytes are not."""
    return {
        "read-bytes": 0,
        "read-bytes-complete": False,
        "write-bytes": 0,
        "write-bytes-complete": False,
        "read-records": region.rows,
        "read-records-complete": True,
        "write-records": 0,
        "write-records-complete": False,
        "accumulated-backpressured-time": milliseconds(region.backpressured),
        "accumulated-idle-time": 0,
        "accumulated-busy-time": region.busy * 1000,
    }


def vertex_details(view: JobView, region: RegionView) -> dict[str, Any]:
    """``/jobs/:jid/vertices/:vid``. Spark tells of a region as a whole, which is task 0."""
    task = _subtask(view, region)
    return {
        "id": vertex_id(region.uid),
        "name": region.uid,
        "parallelism": region.parallelism,
        "maxParallelism": region.parallelism,
        "now": milliseconds(view.now),
        "subtasks": [task],
        "aggregated": {
            "metrics": {
                name: spread([int(value)])
                for name, value in task["metrics"].items()
                if not name.endswith("-complete")
            },
            "status-duration": {
                name: spread([value]) for name, value in task["status-duration"].items()
            },
        },
    }


def _subtask(view: JobView, region: RegionView) -> dict[str, Any]:
    times = _times(view)
    return {
        "subtask": 0,
        "status": region.status,
        "attempt": 0,
        "endpoint": view.settings.rest_address,
        **times,
        "start_time": times["start-time"],
        "metrics": metrics(region),
        "taskmanager-id": "spark",
        "status-duration": {region.status: times["duration"]},
    }


def _times(view: JobView) -> dict[str, int]:
    return {
        "start-time": milliseconds(view.started),
        "end-time": moment(view.ended),
        "duration": milliseconds(view.duration),
    }
