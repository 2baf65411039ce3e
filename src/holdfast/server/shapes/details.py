"""What the regions of a job, and their tasks, did for one checkpoint."""

from __future__ import annotations

from typing import Any

from holdfast.protocol.statistics import CheckpointFigures, RegionFigures
from holdfast.server.shapes.checkpoints import checkpoint
from holdfast.server.shapes.numbers import milliseconds, summary
from holdfast.server.shapes.vertices import vertex_id
from holdfast.server.view import JobView


def checkpoint_details(view: JobView, figures: CheckpointFigures) -> dict[str, Any]:
    """``/jobs/:jid/checkpoints/details/:cid``, with an entry for every region of the job."""
    tasks = {vertex_id(region.uid): region_part(figures, region.uid) for region in view.regions}
    return {**checkpoint(figures), "tasks": tasks}


def region_part(figures: CheckpointFigures, uid: str) -> dict[str, Any]:
    """One region's part in a checkpoint."""
    found = figures.acknowledged.get(uid)
    return {
        "id": figures.id,
        "status": figures.status.value if found is None else "COMPLETED",
        "latest_ack_timestamp": -1 if found is None else milliseconds(found.acknowledged),
        "checkpointed_size": found.checkpointed_size if found else 0,
        "state_size": found.state_size if found else 0,
        "end_to_end_duration": -1 if found is None else _took(figures, found),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": found.in_flight if found else 0,
        "num_subtasks": _tasks(found),
        "num_acknowledged_subtasks": _tasks(found) if found else 0,
    }


def _tasks(found: RegionFigures | None) -> int:
    return max(1, len(found.tasks)) if found else 1


def _took(figures: CheckpointFigures, found: RegionFigures) -> int:
    return milliseconds(found.acknowledged - figures.triggered)


def subtask_details(figures: CheckpointFigures, uid: str) -> dict[str, Any]:
    """``/jobs/:jid/checkpoints/details/:cid/subtasks/:vid``."""
    found = figures.acknowledged.get(uid)
    if found is None:
        waiting = {"className": "pending", "index": 0, "status": "pending_or_failed"}
        return {**region_part(figures, uid), "summary": _summary([]), "subtasks": [waiting]}
    subtasks = [_subtask(figures, found, index) for index in range(_tasks(found))]
    return {**region_part(figures, uid), "summary": _summary(subtasks), "subtasks": subtasks}


def _subtask(figures: CheckpointFigures, found: RegionFigures, index: int) -> dict[str, Any]:
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": milliseconds(found.acknowledged),
        "end_to_end_duration": _took(figures, found),
        "checkpointed_size": _share(found.checkpointed_size, found, index),
        "state_size": _share(found.state_size, found, index),
        "checkpoint": {"sync": milliseconds(found.sync), "async": milliseconds(found.async_)},
        "alignment": {
            "buffered": 0,
            "processed": 0,
            "persisted": _share(found.in_flight, found, index),
            "duration": milliseconds(found.alignment),
        },
        "start_delay": milliseconds(found.start_delay),
        "unaligned_checkpoint": found.unaligned,
        "aborted": False,
    }


def _share(size: int, found: RegionFigures, index: int) -> int:
    """Sizes are known of the region; evenly shared out, the sum over its tasks is right."""
    tasks = _tasks(found)
    return size // tasks + (1 if index < size % tasks else 0)


def _summary(subtasks: list[dict[str, Any]]) -> dict[str, Any]:
    def over(*keys: str) -> dict[str, Any]:
        return summary([_at(subtask, keys) for subtask in subtasks])

    return {
        "checkpointed_size": over("checkpointed_size"),
        "state_size": over("state_size"),
        "end_to_end_duration": over("end_to_end_duration"),
        "checkpoint_duration": {
            "sync": over("checkpoint", "sync"),
            "async": over("checkpoint", "async"),
        },
        "alignment": {
            name: over("alignment", name)
            for name in ("buffered", "processed", "persisted", "duration")
        },
        "start_delay": over("start_delay"),
    }


def _at(item: Any, keys: tuple[str, ...]) -> int:
    for key in keys:
        item = item[key]
    return int(item)
