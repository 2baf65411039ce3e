"""What is recorded about each failure: what it was, what was decided, how long it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """One failure. Times are seconds since 1970."""

    number: int
    at: float
    region: str | None
    """The region that failed; ``None`` if it was the job or its process."""
    kind: str
    """The class of the failure."""
    why: str
    """Why it is of that class, in words."""
    error: str
    """The name of the exception."""
    message: str
    decision: str
    """What was done about it, in words."""
    scope: str | None = None
    source: str | None = None
    """What those who restarted went on from."""
    attempt: int | None = None
    """The how manyeth restart, by the strategy's own count."""
    delay: float | None = None
    """Seconds that the restart strategy waited; ``None`` if there was no restart."""
    merged_into: int | None = None
    """The failure whose restart was pending already."""
    recovered: float | None = None
    """When everything ran again."""

    @property
    def duration(self) -> float | None:
        """Seconds until everything ran again."""
        return None if self.recovered is None else self.recovered - self.at

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def record_from(item: dict[str, Any]) -> FailureRecord:
    """The inverse of ``to_dict``."""
    return FailureRecord(**item)
