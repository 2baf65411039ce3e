"""Is a runner alive, hung or stuck? The supervisor's judgement, by its own clock alone.

All times are the watcher's monotonic clock, so that no clock that is set can kill a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

RUNNING = "RUNNING"
CANCELLING, FAILING = "CANCELLING", "FAILING"
_STOPPING = ("RESTARTING", CANCELLING, FAILING)
"""States in which everything is being stopped, or built anew: that has an end, or it hangs."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a runner told, and when the watcher heard it.

    The three counts are of everything so far. ``busy``: a batch runs or waits to run, or regions
    should long have been stopped. ``waiting``: what the job waits for and may wait for, such as
    "a sink's server".
    """

    at: float
    state: str
    batches: int
    tasks: int
    checkpoints: int
    busy: bool
    waiting: str | None = None

    @property
    def counts(self) -> tuple[int, int, int]:
        """What moves when work is done."""
        return self.batches, self.tasks, self.checkpoints

    @property
    def should_move(self) -> bool:
        """Whether there is work and nothing to wait for."""
        is_at_work = self.busy if self.state == RUNNING else self.state in _STOPPING
        return is_at_work and self.waiting is None

    def has_moved_since(self, before: Pulse) -> bool:
        """Whether anything was done. Counts that fall mean that something began anew."""
        return (self.state, self.counts) != (before.state, before.counts)

    @property
    def is_ending(self) -> bool:
        """Whether somebody, or the job itself, has decided that it ends."""
        return self.state in (CANCELLING, FAILING)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a runner may be silent, and how long without progress; ``None``: for ever."""

    heartbeat_timeout: float
    stuck_timeout: float | None


@dataclass(frozen=True, slots=True)
class Watch:
    """All that is remembered of a runner's pulses."""

    heard: float
    """When it was last heard; before the first pulse, when it was started."""
    moved: float
    """When it last got on, or had no need to."""
    last: Pulse | None = None


@dataclass(frozen=True, slots=True)
class Alive:
    """Let it be."""


@dataclass(frozen=True, slots=True)
class Hung:
    """It does not answer."""

    why: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """It answers, and gets nothing done."""

    why: str


Judgement: TypeAlias = Alive | Hung | Stuck


def start(now: float) -> Watch:
    """Begin to watch a runner that was just started."""
    return Watch(heard=now, moved=now)


def hear(watch: Watch, pulse: Pulse) -> Watch:
    """Take in a pulse."""
    has_moved = watch.last is None or pulse.has_moved_since(watch.last)
    excused = has_moved or not pulse.should_move
    return Watch(heard=pulse.at, moved=pulse.at if excused else watch.moved, last=pulse)


def judge(watch: Watch, now: float, limits: Limits) -> Judgement:
    """What to think of the runner.

    Take in first every pulse that has arrived: a watcher that was itself held up would otherwise
    blame the runner for its own silence.
    """
    silent = now - watch.heard
    if silent >= limits.heartbeat_timeout:
        return Hung(_silence(watch, silent))
    still = now - watch.moved
    if limits.stuck_timeout is None or watch.last is None or not watch.last.should_move:
        return Alive()
    return Stuck(_standstill(watch.last, still)) if still >= limits.stuck_timeout else Alive()


def _silence(watch: Watch, silent: float) -> str:
    if watch.last is None:
        return f"no heartbeat since it was started {silent:.0f} s ago"
    return f"no heartbeat for {silent:.0f} s; with the last one it was {watch.last.state}"


def _standstill(pulse: Pulse, still: float) -> str:
    there_is = "there is work" if pulse.state == RUNNING else f"it is {pulse.state}"
    return (
        f"{there_is}, but for {still:.0f} s no task has ended, no batch was committed and no "
        f"checkpoint completed (so far {pulse.tasks} tasks, {pulse.batches} batches, "
        f"{pulse.checkpoints} checkpoints)"
    )
