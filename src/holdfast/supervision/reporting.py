"""The runner's end of the link: it tells how the job is doing, and notices when nobody listens."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast import clock
from holdfast.protocol.restarts import Past
from holdfast.protocol.watching import Limits, Pulse
from holdfast.server.processes import Process, process
from holdfast.server.registry import Restart, Runner
from holdfast.supervision.inheritance import LINK, Inheritance, forget, from_environ
from holdfast.supervision.messages import (
    Begun,
    Claimed,
    JvmStarted,
    Message,
    Recorded,
    Restarted,
    Terms,
    encode,
)
from holdfast.supervision.pulses import CREATED, Pulses

if TYPE_CHECKING:
    from holdfast.runtime.running import RunningJob
    from holdfast.settings import Settings

STACKS = signal.SIGUSR2
"""Lets a runner print the stacks of its Python threads to where stderr goes."""

_FIRST_INTERVAL = 1.0
_GLANCE_SECONDS = 0.25


class Reporter:
    """Tells the supervisor; one without a link tells nobody."""

    def __init__(self, link: socket.socket | None, inherited: Inheritance) -> None:
        self.inherited = inherited
        self.supervisor: Process | None = None
        """Who started this process to watch over it."""
        self._link = link
        self._sending = threading.Lock()
        self._interval = _FIRST_INTERVAL
        self._take_pulse: Callable[[], Pulse] = lambda: CREATED
        self._past: Sequence[Past] = ()
        self._past_told = 0
        self._closed = threading.Event()
        self._on_abandoned: Callable[[], None] = _stop_oneself

    def start(self) -> None:
        """From now on the supervisor hears of this process."""
        if self._link is None:
            return
        self.supervisor = process(os.getppid())
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        threading.Thread(target=self._listen, name="supervisor-link", daemon=True).start()

    @property
    def restart(self) -> Restart | None:
        """The restart that this process is."""
        if not self.inherited.deaths:
            return None
        last = self.inherited.deaths[-1]
        return Restart(last.at + (last.delay or 0.0), last.attempt or 1, last.why)

    # Telling

    def tell(self, message: Message) -> None:
        """Send, unless the supervisor is gone or, being halted itself, takes nothing in."""
        if self._link is None:
            return
        with self._sending, suppress(OSError, ValueError):
            if select.select([], [self._link], [], 0)[1]:
                self._link.sendall(encode(message))

    def settings(self, settings: Settings) -> None:
        """The settings are known."""
        self._interval = settings.heartbeat_interval
        limits = Limits(settings.heartbeat_timeout, settings.stuck_timeout)
        self.tell(Terms(settings.restart, limits))

    def claimed(self, runner: Runner) -> None:
        """Nobody else runs the job."""
        self.tell(Claimed(runner.job_id, runner.name, runner.work_dir, runner.started))

    def jvm(self, jvm: Process | None) -> None:
        """Spark's JVM is up."""
        if jvm is not None:
            self.tell(JvmStarted(jvm))

    def begun(self, running: RunningJob) -> None:
        """What to begin with is on disk. From now on pulses are those of this job."""
        from holdfast.runtime.running import history_directory
        from holdfast.supervision.recording import record

        self.tell(Begun(history_directory(running.settings, running.work)))
        record(running.failures, self.inherited.deaths)
        self.tell(Recorded(len(self.inherited.deaths)))
        self._past = running.failover.past
        self._past_told = len(self._past)
        self._take_pulse = Pulses(running).take

    def started(self, running: RunningJob) -> None:
        """All regions run, which is the end of the deaths that led here."""
        from holdfast.supervision.recording import recovered

        recovered(running.failures, clock.now())

    def close(self) -> None:
        """Tell no more: this process is about to end."""
        self._closed.set()

    def _beat(self) -> None:
        due = 0.0
        while not self._closed.is_set():
            self._tell_past()
            if due <= 0:
                self.tell(self._take_pulse())
                due = self._interval
            pause = min(due, _GLANCE_SECONDS)
            due -= pause
            self._closed.wait(pause)

    def _tell_past(self) -> None:
        new = tuple(self._past[self._past_told :])
        if new:
            self._past_told += len(new)
            self.tell(Restarted(new))

    # Listening

    def when_abandoned(self, action: Callable[[], None]) -> None:
        """What to do when the supervisor is gone, in another thread."""
        self._on_abandoned = action

    def _listen(self) -> None:
        assert self._link is not None
        with suppress(OSError):
            while self._link.recv(4096):
                pass
        if not self._closed.is_set():
            self._on_abandoned()


def _stop_oneself() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def connect(environ: MutableMapping[str, str]) -> Reporter:
    """Find the supervisor that started this process, if one did."""
    number, inherited = environ.get(LINK), from_environ(environ)
    forget(environ)
    link = None
    if number is not None:
        with suppress(OSError, ValueError):  # inherited from something else, and closed long ago
            link = socket.socket(fileno=int(number))
            link.set_inheritable(False)
            # To the descriptor, whatever file it leads to by then.
            faulthandler.register(STACKS, file=2, all_threads=True)
    reporter = Reporter(link, inherited if link is not None else Inheritance())
    reporter.start()
    return reporter


def nobody() -> Reporter:
    """For runs without a supervisor."""
    return Reporter(None, Inheritance())
