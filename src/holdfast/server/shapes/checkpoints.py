"""Checkpoints as Flink tells of them: statistics, history, settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.protocol.statistics import CheckpointFigures, Status
from holdfast.server.shapes.numbers import milliseconds, moment, summary
from holdfast.server.view import JobView, Restored
from holdfast.settings import Backend, Checkpointing, Retention, Settings, StorageKind

NEVER = 9_223_372_036_854_775_807
"""Flink's interval when no periodic checkpoints are taken."""

_SUMMED_UP = 10_000
"""So many of the newest checkpoints make up the summary."""


def statistics(view: JobView) -> dict[str, Any]:
    """``/jobs/:jid/checkpoints``."""
    shown = view.settings.checkpointing.history
    newest_first = list(reversed(view.checkpoints))
    return {
        "counts": counts(view),
        "summary": _summary([c for c in newest_first if c.status is Status.COMPLETED]),
        "latest": {
            "completed": _first(newest_first, Status.COMPLETED),
            "savepoint": None,
            "failed": _first(newest_first, Status.FAILED),
            "restored": None if view.restored is None else restored(view.restored),
        },
        "history": [checkpoint(figures) for figures in newest_first[:shown]],
    }


def counts(view: JobView) -> dict[str, int]:
    """How many checkpoints there were."""
    found = Counter(figures.status for figures in view.checkpoints)
    return {
        "restored": 0 if view.restored is None else 1,
        "total": len(view.checkpoints),
        "in_progress": found[Status.IN_PROGRESS],
        "completed": found[Status.COMPLETED],
        "failed": found[Status.FAILED],
    }


def _first(newest_first: Sequence[CheckpointFigures], status: Status) -> dict[str, Any] | None:
    return next((checkpoint(c) for c in newest_first if c.status is status), None)


def _summary(completed: Sequence[CheckpointFigures]) -> dict[str, Any]:
    recent = completed[:_SUMMED_UP]
    return {
        "checkpointed_size": summary([c.checkpointed_size for c in recent]),
        "state_size": summary([c.state_size for c in recent]),
        "end_to_end_duration": summary([end_to_end(c) for c in recent]),
        "alignment_buffered": summary([0] * len(recent)),
        "processed_data": summary([0] * len(recent)),
        "persisted_data": summary([c.in_flight for c in recent]),
    }


def checkpoint(figures: CheckpointFigures) -> dict[str, Any]:
    """One checkpoint without what its regions did."""
    return {
        "className": figures.status.value.lower(),
        "id": figures.id,
        "status": figures.status.value,
        "is_savepoint": False,
        "savepointFormat": None,
        "trigger_timestamp": milliseconds(figures.triggered),
        "latest_ack_timestamp": moment(figures.last_acknowledgement),
        "checkpointed_size": figures.checkpointed_size,
        "state_size": figures.state_size,
        "end_to_end_duration": end_to_end(figures),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": figures.in_flight,
        "num_subtasks": figures.regions,
        "num_acknowledged_subtasks": len(figures.acknowledged),
        "checkpoint_type": "UNALIGNED_CHECKPOINT" if figures.unaligned else "CHECKPOINT",
        "tasks": {},
        **_ending(figures),
    }


def end_to_end(figures: CheckpointFigures) -> int:
    """From the trigger to the end, or to the last answer so far."""
    if figures.duration is not None:
        return milliseconds(figures.duration)
    answered = figures.last_acknowledgement
    return -1 if answered is None else milliseconds(answered - figures.triggered)


def _ending(figures: CheckpointFigures) -> dict[str, Any]:
    match figures.status:
        case Status.COMPLETED:
            return {"external_path": figures.path, "discarded": figures.discarded}
        case Status.FAILED:
            at = moment(figures.ended)
            return {"failure_timestamp": at, "failure_message": figures.failure}
    return {}


def restored(from_: Restored) -> dict[str, Any]:
    """The checkpoint that the run began with."""
    return {
        "id": from_.id,
        "restore_timestamp": milliseconds(from_.at),
        "is_savepoint": False,
        "external_path": from_.path,
    }


def config(settings: Settings) -> dict[str, Any]:
    """``/jobs/:jid/checkpoints/config``."""
    chosen = settings.checkpointing
    return {
        "mode": chosen.mode.name.lower(),
        "interval": NEVER if chosen.interval is None else milliseconds(chosen.interval),
        "timeout": milliseconds(chosen.timeout),
        "min_pause": milliseconds(chosen.min_pause),
        "max_concurrent": chosen.max_concurrent,
        "externalization": _externalization(chosen),
        "state_backend": "rocksdb" if settings.backend is Backend.ROCKSDB else "hashmap",
        "checkpoint_storage": _storage(chosen),
        "unaligned_checkpoints": chosen.unaligned,
        "tolerable_failed_checkpoints": chosen.tolerable_failed,
        "aligned_checkpoint_timeout": milliseconds(chosen.aligned_timeout),
        "checkpoints_after_tasks_finish": chosen.after_tasks_finish,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": NEVER,
        "changelog_storage": None,
    }


def _externalization(chosen: Checkpointing) -> dict[str, bool]:
    return {
        "enabled": chosen.retention is not Retention.NO_EXTERNALIZED_CHECKPOINTS,
        "delete_on_cancellation": chosen.retention is not Retention.RETAIN_ON_CANCELLATION,
    }


def _storage(chosen: Checkpointing) -> str:
    in_memory = chosen.storage is StorageKind.JOBMANAGER
    return "JobManagerCheckpointStorage" if in_memory else "FileSystemCheckpointStorage"
