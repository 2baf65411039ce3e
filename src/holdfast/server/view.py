"""A running job as data, at one moment: what the server answers from and the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from holdfast import clock
from holdfast.protocol.lag import PartitionLag
from holdfast.protocol.records import FailureRecord
from holdfast.protocol.statistics import CheckpointFigures, Status
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.runtime.commits import CommitFigures, Try
    from holdfast.runtime.failover import NextRestart
    from holdfast.runtime.regions import RunningRegion
    from holdfast.runtime.running import RunningJob
    from holdfast.runtime.transactions import Listing

OVER = frozenset({"FINISHED", "FAILED", "CANCELED", "SUSPENDED"})
"""Job states in which nothing runs any more."""

_STATUS = {
    "CREATED": "CREATED",
    "RUNNING": "RUNNING",
    "RESTARTING": "SCHEDULED",
    "FAILING": "CANCELING",
    "FAILED": "FAILED",
    "CANCELLING": "CANCELING",
    "CANCELED": "CANCELED",
    "FINISHED": "FINISHED",
    "SUSPENDED": "CANCELED",
}
"""Flink's execution state of a region, by the state of its job."""


@dataclass(frozen=True, slots=True)
class RegionView:
    """A region and how it is doing."""

    uid: str
    reads: tuple[str, ...]
    sinks: tuple[str, ...]
    output_mode: str
    status: str
    parallelism: int
    """State partitions; 1 without state."""
    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0
    busy: float = 0.0
    backpressured: float = 0.0
    watermark: str | None = None
    lag: int = 0
    """Rows of its sources that it has not read."""
    partitions: tuple[PartitionLag, ...] = ()
    """The same of each partition of its Kafka topics."""
    behind: int = 0
    """Segments of its input channels that it has not read."""


@dataclass(frozen=True, slots=True)
class ChannelView:
    """A channel and how full it is."""

    uid: str
    readers: tuple[str, ...]
    unread: int
    capacity: int


@dataclass(frozen=True, slots=True)
class SinkView:
    """A sink that takes epochs, and whether it can commit them."""

    uid: str
    waiting_for: int | None = None
    """The checkpoint whose rows it has not been able to commit yet."""
    since: float | None = None
    tries: int = 0
    """That failed, for this checkpoint."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """What the job failed of; ``region`` is empty if it was none of them."""

    name: str
    message: str
    at: float
    region: str | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """The checkpoint that this run began with, or has gone back to."""

    id: int
    path: str
    at: float


@dataclass(frozen=True, slots=True)
class JobView:
    """A job at one moment."""

    id: str
    name: str
    state: str
    entered: Mapping[str, float]
    """When the job came into each of its states."""
    now: float
    regions: tuple[RegionView, ...]
    channels: tuple[ChannelView, ...]
    checkpoints: Sequence[CheckpointFigures]
    """Oldest first."""
    settings: Settings
    failure: Failure | None = None
    restored: Restored | None = None
    sinks: tuple[SinkView, ...] = ()
    failures: tuple[FailureRecord, ...] = ()
    """Of all runs, newest last."""
    next_restart: NextRestart | None = None

    @property
    def restarts(self) -> int:
        """Restarts that this run has decided on, as Flink counts them: one that is due, too."""
        return sum(each.delay is not None for each in self.failures_of_run())

    def failures_of_run(self) -> tuple[FailureRecord, ...]:
        """Failures since the run began."""
        return tuple(each for each in self.failures if each.at >= self.started)

    @property
    def started(self) -> float:
        """When the run began."""
        return min(self.entered.values())

    @property
    def ended(self) -> float | None:
        """When it was over."""
        return self.entered.get(self.state) if self.state in OVER else None

    @property
    def duration(self) -> float:
        """How long it has run, or ran."""
        return (self.ended or self.now) - self.started

    def region(self, uid: str) -> RegionView | None:
        """One region."""
        return next((region for region in self.regions if region.uid == uid), None)

    def completed(self) -> CheckpointFigures | None:
        """The newest checkpoint that completed."""
        done = (c for c in reversed(self.checkpoints) if c.status is Status.COMPLETED)
        return next(done, None)


class JobAccess(Protocol):
    """What the server may do with a job."""

    def view(self) -> JobView:
        """Look at it."""
        ...

    def checkpoint(self, full: bool) -> Future[int]:
        """Ask for a checkpoint; the future has its id, or why it failed."""
        ...

    def cancel(self) -> None:
        """Ask it to end for good; returns at once."""
        ...

    def transactions(self) -> Listing:
        """What its sinks have neither committed nor aborted."""
        ...

    def commit_now(self, sink: str | None, seconds: float) -> list[Try]:
        """Let sinks that wait for their next try to commit make it now."""
        ...


class RunningAccess:
    """Access to a job that runs in this process."""

    def __init__(self, running: RunningJob) -> None:
        self._running = running

    def view(self) -> JobView:
        """Look at it."""
        return look(self._running)

    def checkpoint(self, full: bool) -> Future[int]:
        """Ask for a checkpoint."""
        return self._running.checkpoint(full)

    def cancel(self) -> None:
        """Ask it to end for good."""
        self._running.cancel()

    def transactions(self) -> Listing:
        """What its sinks have neither committed nor aborted."""
        return self._running.transactions()

    def commit_now(self, sink: str | None, seconds: float) -> list[Try]:
        """Let sinks that wait for their next try to commit make it now."""
        tried: list[Try] = self._running.commits.hurry(sink, seconds)
        return tried


def look(running: RunningJob) -> JobView:
    """The job as it is now."""
    state, now = running.state.value, clock.now()
    # A state is entered just before its time is on record.
    entered = {state: now} | {s.value: at for s, at in dict(running.entered).items()}
    return JobView(
        id=running.job_id,
        name=running.graph.name,
        state=state,
        entered=entered,
        now=now,
        regions=tuple(_region(running, region, state) for region in running.regions.values()),
        channels=tuple(_channel(running, uid) for uid in running.graph.channels),
        checkpoints=[_still(figures) for figures in running.history.all()],
        settings=running.settings,
        failure=_failure(running, entered),
        restored=_restored(running, entered),
        sinks=tuple(_sink(figures) for figures in running.commits.figures),
        failures=tuple(running.failures.all()),
        next_restart=running.next_restart,
    )


def _region(running: RunningJob, region: RunningRegion, state: str) -> RegionView:
    figures, uid = region.figures, region.uid
    inputs = running.graph.inputs(uid)
    status = _status(region, state)
    return RegionView(
        uid=uid,
        reads=region.region.reads,
        sinks=tuple(use.uid for use in running.graph.sinks_of(uid)),
        output_mode=region.region.output_mode,
        status=status,
        parallelism=_parallelism(running, uid),
        batch=running.gates.last_batch(uid),
        rows=figures.rows,
        rows_per_second=0.0 if status == "SCHEDULED" else figures.rows_per_second,
        state_rows=figures.state_rows,
        state_bytes=figures.state_bytes,
        busy=figures.busy,
        backpressured=figures.backpressured,
        watermark=figures.watermark,
        lag=figures.lag,
        partitions=figures.partitions,
        behind=sum(_behind(running, uid, channel) for channel in inputs),
    )


def _status(region: RunningRegion, state: str) -> str:
    if state == "RUNNING" and region.halted:
        return "SCHEDULED"
    return "FINISHED" if state == "RUNNING" and region.finished else _STATUS[state]


def _parallelism(running: RunningJob, uid: str) -> int:
    latest = running.store.latest
    snapshot = latest.region(uid) if latest is not None else None
    return (snapshot.partitions or 1) if snapshot is not None and snapshot.operators else 1


def _behind(running: RunningJob, uid: str, channel: str) -> int:
    read: int = running.gates.position(uid, channel)
    return running.gates.last_batch(channel) + 1 - read


def _channel(running: RunningJob, uid: str) -> ChannelView:
    readers = running.graph.channels[uid]
    return ChannelView(uid, readers, running.gates.unread(uid), running.settings.channel_capacity)


def _sink(figures: CommitFigures) -> SinkView:
    waiting, tries = figures.waiting_for, figures.in_a_row
    return SinkView(figures.sink, waiting, figures.since, tries, figures.error)


def _still(figures: CheckpointFigures) -> CheckpointFigures:
    # The coordinator goes on filling in the answers of one that is in progress.
    if figures.status is not Status.IN_PROGRESS:
        return figures
    return replace(figures, acknowledged=dict(figures.acknowledged))


def _failure(running: RunningJob, entered: Mapping[str, float]) -> Failure | None:
    error = running.failure
    if error is None:
        return None
    region = error.ids.get("region")
    at = entered.get("FAILING", clock.now())
    return Failure(type(error).__name__, str(error), at, str(region) if region else None)


def _restored(running: RunningJob, entered: Mapping[str, float]) -> Restored | None:
    number, path = running.attempt.restored_from, running.settings.restore_path
    began = min(entered.values())
    if number is None:
        return None
    if running.found.restored_from is not None or _was_taken_since(running, number, began):
        return Restored(number, running.store.path_of(number), entered.get("RUNNING", began))
    return None if path is None else Restored(number, path, began)


def _was_taken_since(running: RunningJob, checkpoint: int, began: float) -> bool:
    """Whether an attempt that was resumed had gone back to a checkpoint of this very run."""
    figures = running.history.get(checkpoint)
    return figures is not None and figures.triggered >= began
