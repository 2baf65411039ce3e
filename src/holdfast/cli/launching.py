"""A job that runs in another thread, while the main thread shows it and answers signals.

PySpark would replace the handler of Ctrl-C if Spark were started in the main thread, and there a
signal would come in the middle of what is being said to Java.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from types import FrameType

from holdfast.launch import Outcome, Started, Watch
from holdfast.server.processes import children

GLANCE_SECONDS = 0.5
"""How often a running job is looked at."""

_GRACE_SECONDS = 10.0
_SHORT_GLANCE = 0.01


class Launched:
    """A launch in another thread."""

    def __init__(self, launch: Callable[[Watch], Outcome]) -> None:
        self._started: Future[Started] = Future()
        self._outcome: Future[Outcome] = Future()
        self._launch = launch
        threading.Thread(target=self._work, name="launch", daemon=True).start()

    def _work(self) -> None:
        try:
            self._outcome.set_result(self._launch(self._watch))
        except BaseException as error:
            self._outcome.set_exception(error)
            if not self._started.done():
                self._started.set_exception(error)

    def _watch(self, started: Started) -> None:
        self._started.set_result(started)
        while not started.running.wait(60.0):
            pass

    def started(self) -> Started:
        """Wait until it runs; raises what kept it from that."""
        return self._started.result()

    def outcome(self) -> Outcome:
        """Wait until it is over."""
        return self._outcome.result()

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end for so long."""
        wait([self._outcome], seconds)
        return self._outcome.done()


class Stopping:
    """The first signal stops the job in order; the second ends the process at once."""

    def __init__(self, started: Started, on_first: Callable[[str], None]) -> None:
        self.number: int | None = None
        self._started = started
        self._on_first = on_first

    @property
    def exit_code(self) -> int | None:
        """What a shell reports of a process that the signal ended."""
        return None if self.number is None else 128 + self.number

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While this lasts, signals are answered here."""
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {n: signal.getsignal(n) for n in signals}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._answer)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _answer(self, number: int, _: FrameType | None) -> None:
        if self.number is not None:
            end_now(128 + number)
        self._stop(number, "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)

    def abandoned(self) -> None:
        """The supervisor is gone, which is as good as SIGTERM, but no second one."""
        if self.number is None:
            self._stop(signal.SIGTERM, "the end of its supervisor")

    def _stop(self, number: int, why: str) -> None:
        self.number = number
        # In a thread and at once: Ctrl-C has also gone to Spark's Python workers, and what they
        # report then must find the job stopping and not failing.
        threading.Thread(target=self._started.running.suspend, name="suspend").start()
        with suppress(OSError):  # who would read it may be gone too
            self._on_first(why)


def end_now(exit_code: int) -> None:
    """End this process and its JVM. A job is built to survive just that."""
    for child in children(os.getpid()):
        _send(child, signal.SIGKILL)
    os._exit(exit_code)


def end_java() -> None:
    """End the one process that this one has started: nothing of it runs when this returns."""
    deadline = time.monotonic() + _GRACE_SECONDS
    for child in list(children(os.getpid())):
        _send(child, signal.SIGTERM)
    while left := list(children(os.getpid())):
        if time.monotonic() > deadline:
            for child in left:
                _send(child, signal.SIGKILL)
        time.sleep(_SHORT_GLANCE)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
