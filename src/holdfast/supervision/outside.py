"""The world around a supervisor: signals, clocks, chance, and the processes it starts."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol

from holdfast import clock
from holdfast.server.processes import Process
from holdfast.supervision.child import Child
from holdfast.supervision.messages import Message

_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)


class RunnerProcess(Protocol):
    """A runner, as its supervisor deals with it."""

    @property
    def pid(self) -> int:
        """The id of its process."""
        ...

    @property
    def sockets(self) -> list[socket.socket]:
        """What can be read from when it has told something."""
        ...

    def heard(self, at: float) -> list[Message]:
        """What it has told since the last call."""
        ...

    def exit_code(self) -> int | None:
        """How it ended, negative if by a signal; ``None`` if it runs."""
        ...

    def signal(self, number: int) -> None:
        """Send it a signal."""
        ...

    def halt(self) -> None:
        """Let it wait."""
        ...

    def go_on(self) -> None:
        """After ``halt``."""
        ...

    def end(self, jvm: Process | None) -> bool:
        """Kill what is left of it; returns whether nothing is."""
        ...

    def close(self) -> None:
        """Hear no more."""
        ...


class Outside(Protocol):
    """What a supervisor needs and tests replace."""

    def start(self, environ: Mapping[str, str]) -> RunnerProcess:
        """Start a runner with these variables besides our own."""
        ...

    def wait(self, runner: RunnerProcess | None, seconds: float) -> None:
        """Until the runner tells something or ends, a signal comes, or the time is over."""
        ...

    def next_signal(self) -> int | None:
        """A signal that somebody has sent to this process."""
        ...

    def halt(self) -> None:
        """Stop this process, as Ctrl-Z does; returns when it is told to go on."""
        ...

    def clock(self) -> float:
        """Seconds that only grow."""
        ...

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def jitter(self) -> float:
        """A random number from -1 to 1."""
        ...


class System:
    """The real one. Signals are for the main thread, and so is this."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._signals: deque[int] = deque()
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While this lasts, signals are kept for ``next_signal``; ignored ones stay ignored."""
        before = {n: signal.getsignal(n) for n in (*_ASKING, signal.SIGCHLD, signal.SIGTTOU)}
        for number in _ASKING:
            if before[number] is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._keep)
        # The end of a child wakes us. A runner, being in the background, may write to a terminal.
        signal.signal(signal.SIGCHLD, lambda _n, _f: None)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        wake = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wake)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _keep(self, number: int, _: FrameType | None) -> None:
        self._signals.append(number)

    def start(self, environ: Mapping[str, str]) -> RunnerProcess:
        """Start a runner."""
        return Child(self._command, {**os.environ, **environ})

    def wait(self, runner: RunnerProcess | None, seconds: float) -> None:
        """Until something happens."""
        if not self._signals:
            sockets = runner.sockets if runner is not None else []
            select.select([self._woken, *sockets], [], [], max(0.0, seconds))
        with suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    def next_signal(self) -> int | None:
        """The oldest one."""
        return self._signals.popleft() if self._signals else None

    def halt(self) -> None:
        """Stop this process."""
        os.kill(os.getpid(), signal.SIGSTOP)

    def clock(self) -> float:
        """Monotonic."""
        return time.monotonic()

    def now(self) -> float:
        """By the calendar."""
        return clock.now()

    def jitter(self) -> float:
        """By chance."""
        return random.uniform(-1, 1)
