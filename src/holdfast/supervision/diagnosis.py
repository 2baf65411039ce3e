"""What a runner that hangs was doing: written to its log before it is killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from holdfast.protocol.watching import Pulse
from holdfast.server.processes import Process, state_of
from holdfast.supervision.reporting import STACKS

_PATIENCE = 5.0
_QUIET_SECONDS = 0.3
_GLANCE_SECONDS = 0.05


def diagnose(log: Path, why: str, pulse: Pulse | None, runner: int, jvm: Process | None) -> None:
    """Append the reason, the last pulse, and the stacks of all threads, Python's and Java's.

    Both print them by themselves when they get a signal, to the log, unless they are halted.
    """
    note(log, f"the runner {why}")
    note(log, f"its last pulse: {_without_time(pulse)}")
    note(log, f"its process {runner} is {state_of(runner)}; the stacks of its Python threads:")
    _ask(runner, STACKS, log)
    if jvm is None or not jvm.runs:
        note(log, "there is no JVM")
        return
    note(log, f"its JVM {jvm.pid} is {state_of(jvm.pid)}; the stacks of its threads:")
    _ask(jvm.pid, signal.SIGQUIT, log)


def note(log: Path, text: str) -> None:
    """A line in the log of a runner."""
    with suppress(OSError), log.open("a") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} supervisor: {text}\n")


def _without_time(pulse: Pulse | None) -> str:
    if pulse is None:
        return "none"
    told = asdict(pulse)
    return ", ".join(f"{name}={value}" for name, value in told.items() if name != "at")


def _ask(pid: int, number: signal.Signals, log: Path) -> None:
    with suppress(ProcessLookupError, PermissionError):
        size = _size(log)
        os.kill(pid, number)
        _wait_until_written(log, size)


def _wait_until_written(log: Path, first: int) -> None:
    """Until the log has grown and grows no more, or for so long."""
    seen = first
    deadline = changed = time.monotonic() + _PATIENCE
    while (now := time.monotonic()) < deadline:
        if (size := _size(log)) != seen:
            seen, changed = size, now
        if seen != first and now - changed >= _QUIET_SECONDS:
            return
        time.sleep(_GLANCE_SECONDS)


def _size(log: Path) -> int:
    with suppress(OSError):
        return log.stat().st_size
    return 0
