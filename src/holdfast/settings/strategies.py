"""Restart strategies as they are set: plain records, durations in seconds.

What they decide is in ``holdfast.protocol.restarts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first failure ends the job."""


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """So many restarts in the life of a job, each after the same wait; ``None``: without end."""

    attempts: int | None = 1
    delay: float = 1.0


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Restarts go on while no more than ``most`` failures fall into an interval."""

    most: int = 1
    interval: float = 60.0
    delay: float = 1.0


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """Each wait is longer than the one before; after a quiet time all begins anew.

    ``jitter`` is the part of a wait that chance may add or take away. ``attempts`` counts since
    the last quiet time; ``None``: without end.
    """

    initial: float = 1.0
    longest: float = 60.0
    multiplier: float = 1.5
    reset_after: float = 3600.0
    jitter: float = 0.1
    attempts: int | None = None


Strategy: TypeAlias = NoRestart | FixedDelay | FailureRate | ExponentialDelay
