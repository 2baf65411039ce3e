"""Committing what completed checkpoints have promised, sink by sink, until it succeeds.

Each sink has a thread of its own, so one whose server is away holds up neither the others nor the
coordinator. Between two tries it waits, longer each time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from holdfast import clock
from holdfast.runtime.channels import nothing
from holdfast.runtime.epochs import SinkEpochs

_log = logging.getLogger(__name__)
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class CommitFigures:
    """How a sink is doing."""

    sink: str
    waiting_for: int | None = None
    """The checkpoint whose transactions are being committed."""
    since: float | None = None
    failures: int = 0
    """Tries that failed, in this run of the job."""
    in_a_row: int = 0
    """Those of them that failed for what is waited for now."""
    error: str | None = None
    """Why the last try failed, if it did."""


class Tried(Enum):
    """What became of a try that somebody asked for."""

    COMMITTED = "committed"
    FAILED = "failed"
    GOING_ON = "going on"


@dataclass(frozen=True, slots=True)
class Try:
    """A try of one sink."""

    sink: str
    checkpoint: int
    tried: Tried
    error: str | None = None


class Commits:
    """The commits of all sinks of a job."""

    def __init__(self, sinks: Sequence[SinkEpochs]) -> None:
        self._committers = [_Committer(sink) for sink in sinks]

    def when_committed(self, call: Callable[[], None]) -> None:
        """Call whenever a sink has committed, in that sink's thread; before the start."""
        for committer in self._committers:
            committer.on_commit = call

    def start(self) -> None:
        """From now on commits can be asked for."""
        for committer in self._committers:
            committer.start()

    def ask(self, checkpoint: int, tried: Callable[[], None]) -> None:
        """Commit; ``tried`` is called once, when every sink has succeeded or failed once."""
        countdown = _Countdown(len(self._committers), tried)
        for committer in self._committers:
            committer.ask(checkpoint, countdown.count)
        if not self._committers:
            tried()

    def hurry(self, sink: str | None, seconds: float) -> list[Try]:
        """Let those that wait for their next try make it now; look at them when they have.

        One whose try takes longer than that goes on with it.
        """
        deadline = time.monotonic() + seconds
        hurried = []
        for committer in self._committers:
            tried = threading.Event()
            checkpoint = committer.hurry(tried.set) if sink in (None, committer.uid) else None
            if checkpoint is not None:
                hurried.append((committer, checkpoint, tried))
        for _, _, tried in hurried:
            tried.wait(max(0.0, deadline - time.monotonic()))
        return [_look(c.figures, number, tried.is_set()) for c, number, tried in hurried]

    def wait(self, seconds: float) -> bool:
        """Whether everything that was asked for has been committed."""
        deadline = time.monotonic() + seconds
        return all(c.wait(deadline - time.monotonic()) for c in self._committers)

    @property
    def figures(self) -> list[CommitFigures]:
        """How the sinks are doing."""
        return [committer.figures for committer in self._committers]

    def close(self) -> None:
        """Let the tries that are under way end, and make no more."""
        for committer in self._committers:
            committer.close()


def _look(figures: CommitFigures, checkpoint: int, is_over: bool) -> Try:
    if not is_over:
        return Try(figures.sink, checkpoint, Tried.GOING_ON, figures.error)
    tried = Tried.COMMITTED if figures.error is None else Tried.FAILED
    return Try(figures.sink, checkpoint, tried, figures.error)


class _Countdown:
    """Calls back when it has been counted down."""

    def __init__(self, count: int, at_zero: Callable[[], None]) -> None:
        self._left = count
        self._at_zero = at_zero
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._left -= 1
            is_zero = self._left == 0
        if is_zero:
            self._at_zero()


class _Committer:
    """The thread of one sink."""

    def __init__(self, sink: SinkEpochs) -> None:
        self.uid = sink.uid
        self.on_commit: Callable[[], None] = nothing
        self._sink = sink
        self._asked: list[tuple[int, Callable[[], None]]] = []
        self._waiting_for: int | None = None
        self._closed = False
        self._changed = threading.Condition()
        self.figures = CommitFigures(sink.uid)
        self._thread = threading.Thread(target=self._run, name=f"commit-{sink.uid}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self, checkpoint: int, tried: Callable[[], None]) -> None:
        with self._changed:
            self._asked.append((checkpoint, tried))
            self._waiting_for = checkpoint
            self._changed.notify_all()

    def hurry(self, tried: Callable[[], None]) -> int | None:
        """The checkpoint that is tried now; ``None`` if nothing waits."""
        with self._changed:
            if self._waiting_for is not None and not self._closed:
                self._asked.append((self._waiting_for, tried))
                self._changed.notify_all()
            return self._waiting_for

    def wait(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting_for is None, max(0.0, seconds))

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    def _run(self) -> None:
        pause: float | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._asked, pause)
                if self._closed:
                    return
                asked, self._asked = self._asked, []
                checkpoint = self._waiting_for
            done = checkpoint is None or self._try(checkpoint)
            pause = None if done else min(LONGEST_PAUSE, 2 * pause if pause else FIRST_PAUSE)
            for _, tried in asked:
                tried()

    def _try(self, checkpoint: int) -> bool:
        uid, before = self._sink.uid, self.figures
        now = replace(before, waiting_for=checkpoint, since=before.since or clock.now())
        self.figures = now
        try:
            self._sink.commit(checkpoint)
        except Exception as error:
            _log.warning("sink %s could not commit checkpoint %s: %s", uid, checkpoint, error)
            self._sink.refused()
            failures, in_a_row = now.failures + 1, now.in_a_row + 1
            self.figures = replace(now, failures=failures, in_a_row=in_a_row, error=str(error))
            return False
        self.figures = CommitFigures(uid, failures=now.failures)
        with self._changed:
            if self._waiting_for == checkpoint:
                self._waiting_for = None
            self._changed.notify_all()
        self.on_commit()
        return True
