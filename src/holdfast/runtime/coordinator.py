"""The coordinator: triggers checkpoints, collects answers, completes or aborts.

One thread decides; it takes one event after the other from a queue. Snapshots are made by the
threads of ``snapshots``, which answer through the same queue; completion hooks, which are the
user's, have a thread of their own.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast import clock
from holdfast.checkpoints.store import CheckpointWriter
from holdfast.errors import HoldfastError
from holdfast.protocol.failures import Reason, Tolerance, Verdict
from holdfast.protocol.flow import Alignment, Cut
from holdfast.protocol.pending import Ack, Pending, PendingCheckpoints
from holdfast.protocol.statistics import CheckpointFigures
from holdfast.protocol.triggering import (
    MOST_REQUESTS,
    Cause,
    Pace,
    Past,
    Request,
    TriggerNow,
    WaitUntil,
    next_trigger,
)
from holdfast.runtime.commits import Commits
from holdfast.runtime.completion import Completion
from holdfast.runtime.fencing import Fenced
from holdfast.runtime.gates import Gates
from holdfast.runtime.orderly import Orderly
from holdfast.runtime.snapshots import Answer, Snapshots
from holdfast.settings import Checkpointing, Mode
from holdfast.steps import step

_log = logging.getLogger(__name__)
_PATIENCE = 10.0
_GLANCE = 0.05


class CheckpointFailed(HoldfastError):
    """A checkpoint did not complete."""

    code = "CHECKPOINT_FAILED"
    retryable = True


@dataclass(slots=True)
class _InFlight:
    """What belongs to a checkpoint that has not ended."""

    writer: CheckpointWriter
    user: dict[str, Any] = field(default_factory=dict)
    cuts: int = 0
    """Snapshots that are being made."""
    over: bool = False


def _look_again() -> None:
    """An event after which there may be something to trigger."""


class Coordinator:
    """Decides about checkpoints of one job."""

    def __init__(
        self,
        settings: Checkpointing,
        regions: Sequence[str],
        gates: Gates,
        snapshots: Snapshots,
        completion: Completion,
        commits: Commits,
        take_id: Callable[[], int],
        on_failure: Callable[[HoldfastError], None],
    ) -> None:
        self._settings = settings
        self._regions = set(regions)
        self._gates = gates
        self._snapshots = snapshots
        self._completion = completion
        self._commits = commits
        self._history = completion.history
        self._take_id = take_id
        self._on_failure = on_failure
        self._pace = Pace(settings.interval, settings.min_pause, settings.max_concurrent)
        self._past = Past(clock.now())
        self._tolerance = Tolerance(settings.tolerable_failed)
        self._pending: PendingCheckpoints[Answer] = PendingCheckpoints()
        self._in_flight: dict[int, _InFlight] = {}
        self._queue: list[Request] = []
        self._waiting: dict[str, Future[int]] = {}
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._untaken = sys.maxsize
        self._untold = 0
        self._paused = False
        self._closed = False
        self._door = threading.Lock()
        """Nobody asks for a checkpoint in the moment in which nobody answers any more."""
        self._hooks = Orderly("completion-hooks")
        commits.when_committed(lambda: self._events.put(_look_again))
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)

    # From other threads

    def start(self) -> None:
        """Begin to trigger."""
        self._past = Past(clock.now())
        self._hooks.start()
        self._thread.start()

    def request(self, cause: Cause, full: bool = False) -> Future[int]:
        """Ask for a checkpoint; the future has its id, or why it failed. It always ends."""
        future: Future[int] = Future()
        request = Request(cause, clock.now(), f"{cause.name}-{id(future)}", full)
        with self._door:
            if not self._closed:
                self._events.put(lambda: self._enqueue(request, future))
                return future
        future.set_exception(CheckpointFailed(Reason.JOB_STOPPED.sentence))
        return future

    def cuts_reached(self, cuts: list[Cut]) -> None:
        """The gates have cut regions."""
        self._events.put(lambda: self._snapshot(cuts))

    def answered(self, cut: Cut, answer: Answer | Exception) -> None:
        """A region's snapshot is safe, or has failed."""
        self._events.put(lambda: self._receive(cut, answer))

    def region_failed(self, regions: Collection[str]) -> None:
        """Checkpoints that wait for one of these regions cannot complete."""
        self._events.put(lambda: self._abort_those_that_wait_for(set(regions)))

    def pause(self) -> None:
        """Trigger no periodic checkpoints any more."""
        self._paused = True

    def close(self, reason: Reason = Reason.JOB_STOPPED) -> None:
        """Abort what is in flight and end the thread."""
        if self._thread.is_alive():
            self._events.put(lambda: self._close(reason))
            self._thread.join()
        else:  # it was never started, or is closed already
            self._close(reason)

    # In the coordinator's thread

    def _run(self) -> None:
        while not self._closed:
            try:
                wait = self._look_at_clock(clock.now())
                self._events.get(timeout=wait)()
            except queue.Empty:
                continue
            except Exception as error:
                _log.exception("the coordinator failed")
                self._on_failure(CheckpointFailed(f"the coordinator failed: {error!r}"))

    def _look_at_clock(self, now: float) -> float | None:
        """Do what is due; returns the seconds until something else is."""
        for checkpoint in self._pending.expired(self._settings.timeout, now):
            self._abort(checkpoint, Reason.SINK_WAITS if self._sinks_wait() else Reason.EXPIRED)
        if self._settings.unaligned and self._settings.aligned_timeout:
            for checkpoint in self._pending.overdue(self._settings.aligned_timeout, now):
                self._gates.overtake(checkpoint)
        decision = self._decide(now)
        while isinstance(decision, TriggerNow) and not self._closed:
            self._trigger(decision.request, now)
            decision = self._decide(now)
        return self._seconds_left(decision, now)

    def _decide(self, now: float) -> TriggerNow | WaitUntil:
        pace = replace(self._pace, interval=None) if self._paused else self._pace
        waits = self._sinks_wait()
        return next_trigger(
            pace, self._past, self._queue, len(self._pending), now, uncommitted=waits
        )

    def _sinks_wait(self) -> bool:
        return not self._commits.wait(0)

    def _seconds_left(self, decision: TriggerNow | WaitUntil, now: float) -> float | None:
        times = [self._pending.next_deadline(self._settings.timeout)]
        if isinstance(decision, WaitUntil):
            times.append(decision.time)
        if self._settings.unaligned and self._settings.aligned_timeout:
            overdue = self._pending.next_deadline(self._settings.aligned_timeout)
            # Those that have turned already are not worth waking up for.
            times.append(overdue if overdue is not None and overdue > now else None)
        due = [moment for moment in times if moment is not None]
        return max(0.0, min(due) - now) if due else None

    def _enqueue(self, request: Request, future: Future[int]) -> None:
        if self._closed:
            future.set_exception(CheckpointFailed(Reason.JOB_STOPPED.sentence))
            return
        if len(self._queue) >= MOST_REQUESTS:
            future.set_exception(CheckpointFailed(Reason.TOO_MANY_REQUESTS.sentence))
            return
        self._queue.append(request)
        self._waiting[request.name] = future

    def _trigger(self, request: Request, now: float) -> None:
        if request in self._queue:
            self._queue.remove(request)
        self._past = replace(self._past, last_trigger=now)
        alignment = self._alignment()
        try:
            with step("trigger"):
                checkpoint = self._take_id()
            state = _InFlight(self._completion.store.begin(checkpoint))
        except HoldfastError as error:
            self._refuse(request, error)
            return
        self._pending.begin(checkpoint, request, self._regions, now)
        unaligned = alignment is Alignment.UNALIGNED
        full = request.full or not self._settings.incremental
        self._history.begin(
            CheckpointFigures(
                checkpoint, now, len(self._regions), request.cause.name, full, unaligned
            )
        )
        self._in_flight[checkpoint] = state
        try:
            state.user = self._completion.before(checkpoint)
        except Exception as error:
            _log.exception("a snapshot hook failed [checkpoint_id=%s]", checkpoint)
            self._abort(checkpoint, Reason.DECLINED, f"a snapshot hook failed: {error!r}")
            return
        self._gates.trigger(checkpoint, alignment)

    def _refuse(self, request: Request, error: HoldfastError) -> None:
        _log.error("cannot trigger a checkpoint: %s", error)
        if future := self._waiting.pop(request.name, None):
            future.set_exception(error)
        # It has no id, but counts: as one that nobody else will ever have.
        self._untaken -= 1
        self._count(self._untaken, Reason.TRIGGER_FAILED, str(error))

    def _alignment(self) -> Alignment:
        if self._settings.mode is Mode.AT_LEAST_ONCE:
            return Alignment.PASSING
        if self._settings.unaligned and not self._settings.aligned_timeout:
            return Alignment.UNALIGNED
        return Alignment.ALIGNED

    def _snapshot(self, cuts: list[Cut]) -> None:
        for cut in cuts:
            state = self._in_flight.get(cut.checkpoint)
            pending = self._pending.get(cut.checkpoint)
            if state is None or state.over or pending is None:
                self._gates.unpin(cut)
                continue
            state.cuts += 1
            self._snapshots.take(cut, state.writer, pending.request.full, self.answered)

    def _receive(self, cut: Cut, answer: Answer | Exception) -> None:
        self._gates.unpin(cut)
        state = self._in_flight.get(cut.checkpoint)
        if state is None:
            return
        state.cuts -= 1
        if state.over:
            self._clean_up(cut.checkpoint, state)
        elif isinstance(answer, Exception):
            self._tell_if_fenced(answer)
            self._abort(cut.checkpoint, Reason.SNAPSHOT_FAILED, f"region {cut.region}: {answer}")
        else:
            self._acknowledge(cut, answer)

    def _acknowledge(self, cut: Cut, answer: Answer) -> None:
        with step("acknowledge"):
            outcome = self._pending.acknowledge(cut.checkpoint, cut.region, answer)
        if outcome in (Ack.ACCEPTED, Ack.COMPLETE):
            self._history.acknowledged(cut.checkpoint, answer.figures)
        if outcome is Ack.COMPLETE:
            pending = self._pending.get(cut.checkpoint)
            assert pending is not None
            self._complete(pending)

    def _complete(self, pending: Pending[Answer]) -> None:
        state = self._in_flight[pending.id]
        try:
            self._completion.store_it(pending, state.writer, state.user)
        except Exception as error:
            _log.exception("a checkpoint could not be stored [checkpoint_id=%s]", pending.id)
            self._tell_if_fenced(error)
            self._abort(pending.id, Reason.STORE_FAILED, str(error))
            return
        self._pending.end(pending.id)
        del self._in_flight[pending.id]
        self._past = replace(self._past, last_completion=clock.now())
        self._tolerance.succeeded(pending.id)
        for older in self._pending.older_than(pending.id):
            self._abort(older, Reason.SUBSUMED)
        self._completion.subsume()
        self._untold += 1
        self._commits.ask(pending.id, lambda: self._events.put(lambda: self._tell(pending)))

    def _tell(self, pending: Pending[Answer]) -> None:
        """The sinks have committed, or will go on trying: the hooks are told."""

        def tell() -> None:
            self._completion.notify(pending.id)
            self._events.put(lambda: self._told(pending))

        self._hooks.put(tell)

    def _told(self, pending: Pending[Answer]) -> None:
        """The checkpoint is over."""
        self._untold -= 1
        self._snapshots.delete_segments(self._gates.take_unneeded())
        if future := self._waiting.pop(pending.request.name, None):
            future.set_result(pending.id)

    def _abort(self, checkpoint: int, reason: Reason, detail: str = "") -> None:
        pending = self._pending.end(checkpoint)
        state = self._in_flight.get(checkpoint)
        if pending is None or state is None:
            return
        self._gates.abort(checkpoint)
        state.over = True
        state.writer.give_up()
        is_gone = self._clean_up(checkpoint, state)
        if is_gone or reason is not Reason.STORE_FAILED:
            self._snapshots.failed(checkpoint)
        else:
            self._leave_in_doubt(checkpoint)
        message = f"{reason.sentence} {detail}".strip()
        self._history.failed(checkpoint, clock.now(), reason.name, message)
        if future := self._waiting.pop(pending.request.name, None):
            future.set_exception(CheckpointFailed(message, checkpoint_id=checkpoint))
        self._count(checkpoint, reason, message)

    def _tell_if_fenced(self, error: Exception) -> None:
        """It is not the checkpoint that failed: this runner has no job any more."""
        if isinstance(error, Fenced):
            self._on_failure(error)

    def _leave_in_doubt(self, checkpoint: int) -> None:
        """If it is stored, it owns its transactions. Only a restart can find that out."""
        self._on_failure(
            CheckpointFailed(
                "a checkpoint may be stored or not, and its remains could not be deleted",
                hint="Look after the storage of checkpoints, then start the job again.",
                checkpoint_id=checkpoint,
            )
        )

    def _count(self, checkpoint: int, reason: Reason, message: str) -> None:
        if self._tolerance.failed(checkpoint, reason) is Verdict.EXCEEDED:
            allowed = self._settings.tolerable_failed
            self._on_failure(
                CheckpointFailed(
                    f"Exceeded checkpoint tolerable failure threshold. {message}",
                    hint="Look at `holdfast checkpoints JOB`. "
                    f"execution.checkpointing.tolerable-failed-checkpoints is {allowed}.",
                    checkpoint_id=checkpoint,
                )
            )

    def _abort_those_that_wait_for(self, regions: set[str]) -> None:
        for pending in self._pending:
            if waited_for := sorted(pending.waiting & regions):
                detail = f"Waiting for {', '.join(waited_for)}."
                self._abort(pending.id, Reason.REGION_FAILED, detail)

    def _clean_up(self, checkpoint: int, state: _InFlight) -> bool:
        """Delete what was written, as soon as nobody writes any more; whether nothing failed."""
        if state.cuts:
            return True
        self._in_flight.pop(checkpoint, None)
        try:
            state.writer.abort()
        except HoldfastError:
            _log.exception("remains of checkpoint %s could not be deleted", checkpoint)
            return False
        return True

    def _close(self, reason: Reason) -> None:
        for pending in self._pending:
            self._abort(pending.id, reason)
        self._wait_for_others()
        with self._door:
            self._closed = True
        self._hooks.close()
        self._take_what_is_left()
        for future in self._waiting.values():
            future.set_exception(CheckpointFailed(reason.sentence))
        self._waiting.clear()

    def _take_what_is_left(self) -> None:
        """Requests that came meanwhile are answered, snapshots that came too late are deleted."""
        with suppress(queue.Empty):
            while True:
                event = self._events.get_nowait()
                try:
                    event()
                except Exception:
                    _log.exception("at the end of the coordinator")

    def _wait_for_others(self) -> None:
        """Snapshots notice that they are not wanted and leave nothing; sinks try to commit."""
        deadline = time.monotonic() + _PATIENCE
        while (self._in_flight or self._untold) and time.monotonic() < deadline:
            with suppress(queue.Empty):
                self._events.get(timeout=_GLANCE)()
