"""What a job's settings say once they are read: plain records, durations in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

from holdfast.settings.rules import Rule
from holdfast.settings.strategies import Strategy


class Mode(Enum):
    """What a recovery does to rows: each counted once, some again, or some not at all."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


class Retention(Enum):
    """Which checkpoints outlive their job."""

    NO_EXTERNALIZED_CHECKPOINTS = "no-externalized-checkpoints"
    DELETE_ON_CANCELLATION = "delete-on-cancellation"
    RETAIN_ON_CANCELLATION = "retain-on-cancellation"


class Backend(Enum):
    """Where Spark's stateful operators keep their working state."""

    HASHMAP = "hashmap"
    ROCKSDB = "rocksdb"


class StorageKind(Enum):
    """Where the snapshots of a checkpoint go."""

    JOBMANAGER = "jobmanager"
    FILESYSTEM = "filesystem"


class Scope(Enum):
    """Who restarts when a region fails, smallest first."""

    INDIVIDUAL = "individual"
    """The region that failed."""
    REGION = "region"
    """All regions that channels join with it."""
    ALL = "full"


class BoundedRestart(Enum):
    """Where a job with bounded input begins again."""

    CHECKPOINT = "checkpoint"
    SCRATCH = "scratch"


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """When a checkpoint is taken, how, where it goes and how long it is kept."""

    interval: float | None
    mode: Mode
    unaligned: bool
    aligned_timeout: float
    min_pause: float
    timeout: float
    max_concurrent: int
    tolerable_failed: int
    num_retained: int
    retention: Retention
    storage: StorageKind
    dir: str | None
    savepoint_dir: str | None
    incremental: bool
    inline_threshold: int
    after_tasks_finish: bool
    history: int


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a region starts its next micro-batch; ``seconds`` counts for ``interval`` only."""

    kind: Literal["as-fast-as-possible", "interval", "available-now"]
    seconds: float = 0.0


class Described(NamedTuple):
    """One setting as people see it: secrets are hidden."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a job can be told, checked. The keys are in ``docs/settings.md``."""

    checkpointing: Checkpointing
    backend: Backend
    state_spark: Mapping[str, str]
    parallelism: int | None
    trigger: Trigger
    every_batch: bool
    master: str | None
    work_dir: str
    history_dir: str
    channel_capacity: int
    batch_bytes: int
    rest_address: str
    rest_port: int
    restore_path: str | None
    restart: Strategy
    failover: Scope
    failure_rules: tuple[Rule, ...]
    bounded_restart: BoundedRestart
    heartbeat_interval: float
    heartbeat_timeout: float
    stuck_timeout: float | None
    exception_history_size: int
    # Passed to Spark as it is, passwords included, so it stays out of the repr.
    spark: Mapping[str, str] = field(repr=False)
    described: tuple[Described, ...] = field(default=(), repr=False, compare=False)

    def describe(self) -> list[Described]:
        """Key, value and origin of every setting, for ``holdfast info`` and REST."""
        return list(self.described)
