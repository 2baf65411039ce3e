"""How far a job is, for its supervisor; Spark's JVM is asked, so a halted one gives no pulse."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast import clock
from holdfast.protocol.watching import RUNNING, Pulse

if TYPE_CHECKING:
    from holdfast.runtime.regions import RunningRegion
    from holdfast.runtime.running import RunningJob

_log = logging.getLogger(__name__)
_UNHEARD = 0.0
"""When a pulse is heard is known to who hears it."""

CREATED = Pulse(_UNHEARD, "CREATED", 0, 0, 0, False)
"""Before there is a job."""


class Pulses:
    """Takes the pulse of one running job."""

    def __init__(self, running: RunningJob) -> None:
        self._running = running
        self._tasks = 0
        self._checkpoints = 0
        self._cuts: dict[str, int] = {}
        self._last = CREATED

    def take(self) -> Pulse:
        """How far the job is now."""
        try:
            self._last = self._look()
        except Exception:  # a job between two lives; whoever can say so much is alive
            _log.debug("no pulse was taken", exc_info=True)
            self._last = replace(self._last, state=self._running.state.value, busy=False)
        return self._last

    def _look(self) -> Pulse:
        running = self._running
        return Pulse(
            at=_UNHEARD,
            state=running.state.value,
            batches=running.batches(None),
            tasks=self._count_tasks(),
            checkpoints=self._count_checkpoints(),
            busy=self._is_overdue() or any(_is_busy(r) for r in running.regions.values()),
            waiting=self._waiting_for(),
        )

    def _count_tasks(self) -> int:
        from holdfast.spark.task_counts import tasks_ended

        try:
            self._tasks = tasks_ended(self._running.spark)
        except Exception:  # a JVM that is gone is somebody else's to tell
            _log.debug("tasks were not counted", exc_info=True)
        return self._tasks

    def _count_checkpoints(self) -> int:
        """The newest with anything new in it: those of a job that stands still get nowhere."""
        latest = self._running.store.latest
        cuts = {region.uid: region.cut for region in latest.regions} if latest is not None else {}
        if latest is not None and cuts != self._cuts:
            self._checkpoints, self._cuts = latest.id, cuts
        return self._checkpoints

    def _is_overdue(self) -> bool:
        """Whether a restart should have come by now: whoever was to stop for it does not."""
        restart = self._running.next_restart
        return restart is not None and clock.now() >= restart.at

    def _waiting_for(self) -> str | None:
        running = self._running
        if running.next_restart is not None:
            return None if self._is_overdue() else "a restart"
        if running.state.value != RUNNING:  # nobody waits for a store to end a job
            return None
        refused = [each.sink for each in self._running.commits.figures if each.in_a_row]
        return f"the store of {', '.join(refused)}" if refused else None


def _is_busy(region: RunningRegion) -> bool:
    """Whether a batch runs. Merely looking for new rows is not work, however long it takes."""
    if region.query is None or region.halted or region.finished:
        return False
    try:
        status = region.query.status
    except Exception:
        return False
    return bool(status["isTriggerActive"] and status["isDataAvailable"])
