"""What Flink has no place for: rates, channels, causes of checkpoints, decisions on failures.

Here times and durations are in seconds, as everywhere in Holdfast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.protocol.records import FailureRecord
from holdfast.protocol.statistics import CheckpointFigures
from holdfast.server.shapes.checkpoints import counts
from holdfast.server.view import JobView

if TYPE_CHECKING:
    from holdfast.runtime.commits import Try
    from holdfast.runtime.transactions import Listing


def job(view: JobView) -> dict[str, Any]:
    """``/jobs/:jid/holdfast``."""
    return {
        "id": view.id,
        "name": view.name,
        "state": view.state,
        "started": view.started,
        "ended": view.ended,
        "duration": view.duration,
        "mode": view.settings.checkpointing.mode.value,
        "failure": None if view.failure is None else asdict(view.failure),
        "restored": None if view.restored is None else asdict(view.restored),
        **_restarting(view),
        "failures": {"total": len(view.failures), "latest": _latest_failure(view)},
        "regions": [asdict(region) for region in view.regions],
        "channels": [asdict(channel) for channel in view.channels],
        "sinks": [asdict(sink) for sink in view.sinks],
        "checkpoints": {**counts(view), "latest": _latest(view)},
        "settings": [each._asdict() for each in view.settings.describe()],
    }


def _restarting(view: JobView) -> dict[str, Any]:
    due = view.next_restart
    return {"restarts": view.restarts, "next_restart": None if due is None else asdict(due)}


def _latest_failure(view: JobView) -> dict[str, Any] | None:
    return failure(view.failures[-1]) if view.failures else None


def failures(view: JobView, last: int) -> dict[str, Any]:
    """``/jobs/:jid/holdfast/failures``."""
    job = {"id": view.id, "name": view.name, "state": view.state}
    return {"job": job, **_restarting(view), **newest_failures(view.failures, last)}


def newest_failures(records: Sequence[FailureRecord], last: int) -> dict[str, Any]:
    """How many there are, and the newest of them, newest first."""
    newest_first = list(reversed(records))[:last]
    return {"total": len(records), "failures": [failure(each) for each in newest_first]}


def failure(record: FailureRecord) -> dict[str, Any]:
    """Everything on record about a failure."""
    return {**record.to_dict(), "duration": record.duration}


def transactions(view: JobView, listing: Listing) -> dict[str, Any]:
    """``/jobs/:jid/holdfast/transactions``."""
    return {"job": pending_of(view.id, view.name, view.state), **listing.to_dict()}


def pending_of(job_id: str, name: str, state: str) -> dict[str, Any]:
    """Whose transactions; ``state`` is that of a run, or ``STOPPED``."""
    return {"id": job_id, "name": name, "state": state}


def tries(made: Sequence[Try]) -> dict[str, Any]:
    """``POST /jobs/:jid/holdfast/transactions/commit``."""
    return {
        "settled": [
            {
                "sink": each.sink,
                "checkpoint": each.checkpoint,
                "outcome": each.tried.value,
                "reason": each.error,
            }
            for each in made
        ]
    }


def _latest(view: JobView) -> dict[str, Any] | None:
    latest = view.completed()
    return None if latest is None else checkpoint(latest)


def checkpoint(figures: CheckpointFigures) -> dict[str, Any]:
    """Everything on record about a checkpoint, and the sums that people look at."""
    return {
        **figures.to_dict(),
        "duration": figures.duration,
        "state_size": figures.state_size,
        "checkpointed_size": figures.checkpointed_size,
        "in_flight": figures.in_flight,
        "alignment": figures.alignment,
    }


def checkpoints(view: JobView, last: int) -> dict[str, Any]:
    """``/jobs/:jid/holdfast/checkpoints``, newest first."""
    newest_first = list(reversed(view.checkpoints))[:last]
    return {"counts": counts(view), "checkpoints": [checkpoint(c) for c in newest_first]}
