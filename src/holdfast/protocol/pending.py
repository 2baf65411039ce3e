"""Checkpoints in flight: who has acknowledged, which are complete, expired, too late."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from holdfast.protocol.triggering import Request

A = TypeVar("A")


class Ack(Enum):
    """What an acknowledgement led to."""

    ACCEPTED = "one more region has answered"
    COMPLETE = "that was the last one"
    DUPLICATE = "the region had answered already"
    TOO_LATE = "the checkpoint is over, or never was"


@dataclass(slots=True)
class Pending(Generic[A]):
    """A checkpoint that waits for regions."""

    id: int
    request: Request
    triggered: float
    waiting: set[str]
    acks: dict[str, A] = field(default_factory=dict)


class PendingCheckpoints(Generic[A]):
    """All checkpoints in flight; ``A`` is what a region answers with."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending[A]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(list(self._pending.values()))

    def get(self, checkpoint: int) -> Pending[A] | None:
        """The checkpoint, if it is in flight."""
        return self._pending.get(checkpoint)

    def begin(self, checkpoint: int, request: Request, regions: set[str], now: float) -> None:
        """A checkpoint has been triggered."""
        self._pending[checkpoint] = Pending(checkpoint, request, now, set(regions))

    def acknowledge(self, checkpoint: int, region: str, answer: A) -> Ack:
        """A region's snapshot is safe."""
        pending = self._pending.get(checkpoint)
        if pending is None:
            return Ack.TOO_LATE
        if region not in pending.waiting:
            return Ack.DUPLICATE
        pending.waiting.discard(region)
        pending.acks[region] = answer
        return Ack.ACCEPTED if pending.waiting else Ack.COMPLETE

    def end(self, checkpoint: int) -> Pending[A] | None:
        """The checkpoint is over, one way or the other."""
        return self._pending.pop(checkpoint, None)

    def older_than(self, checkpoint: int) -> list[int]:
        """Those that a newer completed one subsumes."""
        return sorted(n for n in self._pending if n < checkpoint)

    def expired(self, timeout: float, now: float) -> list[int]:
        """Those that took too long."""
        return sorted(p.id for p in self._pending.values() if now >= p.triggered + timeout)

    def overdue(self, timeout: float, now: float) -> list[int]:
        """Those that have been aligning for too long and turn unaligned."""
        return self.expired(timeout, now)

    def next_deadline(self, timeout: float) -> float | None:
        """When the oldest one expires."""
        return min((p.triggered + timeout for p in self._pending.values()), default=None)
