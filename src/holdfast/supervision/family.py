"""Everything that a runner has started, to the last process, so that nothing of it is left.

Spark's Python workers have a process group of their own, and a process whose parent has died
belongs to nobody. So the supervisor adopts (Linux: as a subreaper) what dead runners leave behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress

from holdfast.server.processes import Process, children, process

_PATIENCE = 30.0
_GLANCE_SECONDS = 0.02
_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on descendants whose parents die become children of this process."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(runner: int) -> None:
    """Take note of adopted processes that have ended; the runner's own end is left alone."""
    with suppress(ChildProcessError):
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid == runner:
                return
            os.waitpid(found.si_pid, os.WNOHANG)


def descendants(pid: int) -> Iterator[Process]:
    """Children, their children and so on."""
    for child in children(pid):
        if (found := process(child)) is not None:
            yield found
        yield from descendants(child)


class Family:
    """A runner and what it has started. ``others`` are children of ours that are none of it."""

    def __init__(self, runner: int, others: Collection[int]) -> None:
        self._runner = runner
        self._others = frozenset(others)

    def kill(self, known: Collection[Process]) -> bool:
        """End everything at once and wait for that; ``known`` members may belong to nobody.

        Returns whether all of it has ended: the system may hold on to a process for a while.
        """
        members = {*known, *descendants(self._runner)}
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._runner, signal.SIGKILL)
        deadline = time.monotonic() + _PATIENCE
        while members := {*self._running(members), *self._adopted()}:
            for each in members:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(each.pid, signal.SIGKILL)
            reap_orphans(self._runner)
            if time.monotonic() > deadline:
                return False
            time.sleep(_GLANCE_SECONDS)
        return True

    def _running(self, members: Collection[Process]) -> Iterator[Process]:
        return (each for each in members if each.runs)

    def _adopted(self) -> Iterator[Process]:
        for each in descendants(os.getpid()):
            if each.pid not in self._others and each.pid != self._runner:
                yield each
