"""What is recorded about each checkpoint: per region and per task, whatever became of it.

Times are seconds since 1970, durations seconds, sizes bytes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class Status(Enum):
    """How far a checkpoint has come."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """One task of the batch at which a region was cut."""

    index: int
    seconds: float
    """How long it ran."""
    finished: float


@dataclass(frozen=True, slots=True)
class RegionFigures:
    """One region's part in a checkpoint."""

    uid: str
    cut: int
    acknowledged: float
    start_delay: float
    alignment: float
    sync: float
    async_: float
    state_size: int
    """What a restore needs."""
    checkpointed_size: int
    """What had to be written for it."""
    in_flight: int
    """Bytes of in-flight data."""
    unaligned: bool
    tasks: tuple[TaskFigures, ...] = ()

    @property
    def skew(self) -> float:
        """How many times the mean the slowest task took."""
        times = [task.seconds for task in self.tasks]
        mean = sum(times) / len(times) if times else 0.0
        return max(times) / mean if mean else 1.0


@dataclass(slots=True)
class CheckpointFigures:
    """One checkpoint."""

    id: int
    triggered: float
    regions: int
    """How many have to acknowledge."""
    cause: str
    full: bool
    unaligned: bool
    status: Status = Status.IN_PROGRESS
    ended: float | None = None
    acknowledged: dict[str, RegionFigures] = field(default_factory=dict)
    path: str | None = None
    discarded: bool = False
    reason: str | None = None
    failure: str | None = None
    metadata_size: int = 0

    @property
    def duration(self) -> float | None:
        """From the trigger to the end."""
        return None if self.ended is None else self.ended - self.triggered

    @property
    def state_size(self) -> int:
        """What a restore needs."""
        return sum(region.state_size for region in self.acknowledged.values())

    @property
    def checkpointed_size(self) -> int:
        """What had to be written."""
        return sum(region.checkpointed_size for region in self.acknowledged.values())

    @property
    def in_flight(self) -> int:
        """Bytes of in-flight data."""
        return sum(region.in_flight for region in self.acknowledged.values())

    @property
    def alignment(self) -> float:
        """The longest alignment of a region."""
        return max((region.alignment for region in self.acknowledged.values()), default=0.0)

    @property
    def last_acknowledgement(self) -> float | None:
        """When the last region answered so far."""
        return max((r.acknowledged for r in self.acknowledged.values()), default=None)

    def to_dict(self) -> dict[str, Any]:
        """For a file."""
        return {**asdict(self), "status": self.status.value}


def from_dict(item: dict[str, Any]) -> CheckpointFigures:
    """The inverse of ``CheckpointFigures.to_dict``."""
    regions = {
        uid: RegionFigures(
            **{**region, "tasks": tuple(TaskFigures(**task) for task in region["tasks"])}
        )
        for uid, region in item["acknowledged"].items()
    }
    return CheckpointFigures(**{**item, "status": Status(item["status"]), "acknowledged": regions})
