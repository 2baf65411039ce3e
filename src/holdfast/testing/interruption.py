"""Processes that are killed, or held up, at their n-th call out of Python; and processes that race.

Doing it at every call in turn is how the contracts check "all or nothing" and "one wins, the other
is told". What is tested need not cooperate: the interpreter reports each call that leaves Python.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier
from threading import BrokenBarrierError
from typing import Any

Work = Callable[[], Callable[[], object]]
"""Gets ready, and returns what is then watched step by step.

It is pickled on its way to another process: use functions of a module and ``functools.partial``.
"""

_LEAVES_PYTHON = {"posix", "fcntl", "io", "_io", "socket"}
# They change nothing outside: to die there is to die at the next step.
_HARMLESS = {
    *("fspath", "urandom", "stat", "lstat", "fstat", "getpid", "FileIO.fileno"),
    *("socket.recv_into", "SocketIO._checkClosed", "SocketIO._checkReadable"),
    "BufferedReader.readline",
}
_PATIENCE = 300.0


def kill_at_every_step(work: Work, stride: int = 1) -> Iterator[int]:
    """Do ``work`` in a process that dies at step 1, then in one that dies at step 2, and so on.

    Yields each step after a process has died there, for the caller to look at what it left, and
    ends when a process has finished before its step. ``stride`` leaves out steps.
    """
    return itertools.takewhile(partial(kill_at, work), itertools.count(1, stride))


def kill_at(work: Work, step: int) -> bool:
    """Whether a process doing ``work`` died at that step; ``False`` if it finished before."""
    return _dies(_die_at, (work, step, dict(os.environ)), f"at step {step}")


def dies(work: Callable[[], object]) -> bool:
    """Do ``work`` in a process of its own; whether it has killed that process."""
    return _dies(_do, (work, dict(os.environ)), "while working")


def _dies(target: Callable[..., None], arguments: tuple[Any, ...], when: str) -> bool:
    process = _processes().Process(target=target, args=arguments)
    process.start()
    process.join(_PATIENCE)
    if process.exitcode not in (0, -signal.SIGKILL):
        process.kill()
        raise AssertionError(f"{when} the process ended with {process.exitcode}")
    return process.exitcode != 0


def overtake_at_every_step(
    work: Work, meanwhile: Callable[[], object], stride: int = 1
) -> Iterator[tuple[int, Any, Any]]:
    """Hold a process that does ``work`` at step 1, do ``meanwhile`` here, let it go on; step 2 …

    Yields each step with what the process returned and what ``meanwhile`` returned.
    """
    for step in itertools.count(1, stride):
        ours, theirs = multiprocessing.Pipe()
        arguments = (work, step, theirs, dict(os.environ))
        process = _processes().Process(target=_hold_at, args=arguments)
        process.start()
        theirs.close()
        held = _receive(ours, step) == "held"
        here = meanwhile() if held else None
        if held:
            ours.send("go on")
            there = _receive(ours, step)
        process.join(_PATIENCE)
        if not held:
            return
        yield step, there, here


def race(attempt: Callable[[int, int], object], racers: int, rounds: int) -> list[list[Any]]:
    """Call ``attempt(racer, round)`` in every racer at the same moment, round by round.

    Each racer is a process. Returns, for each round, what each racer returned.
    """
    processes = _processes()
    arguments = (processes.Barrier(racers, timeout=_PATIENCE), dict(os.environ))
    with ProcessPoolExecutor(racers, processes, _join_race, arguments) as pool:
        runs = [pool.submit(_run_rounds, attempt, racer, rounds) for racer in range(racers)]
        failed = [error for run in runs if (error := run.exception())]
        # When one racer fails the others stop waiting for it: that is not what went wrong.
        for error in sorted(failed, key=lambda error: isinstance(error, BrokenBarrierError)):
            raise error
        return [list(results) for results in zip(*(run.result() for run in runs), strict=True)]


def _processes() -> ForkServerContext:
    # Not "fork": the copy of a process with threads inherits their locks, held for ever.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["holdfast.storage", "holdfast.testing.sinks_calls"])
    return context


def _enter(environment: dict[str, str]) -> None:
    # The server that forks has the environment of the moment when it was started.
    os.environ.update(environment)


def _receive(connection: Connection, step: int) -> Any:
    if not wait([connection], _PATIENCE):
        raise AssertionError(f"at step {step} nothing was heard for {_PATIENCE:.0f} s")
    return connection.recv()


def _do(work: Callable[[], object], environment: dict[str, str]) -> None:
    _enter(environment)
    work()
    os._exit(0)


def _die_at(work: Work, step: int, environment: dict[str, str]) -> None:
    _enter(environment)
    watched = work()
    _watch(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
    watched()
    os._exit(0)  # at once: tidying up after the work is not a step of it


def _hold_at(work: Work, step: int, connection: Connection, environment: dict[str, str]) -> None:
    def hold() -> None:
        connection.send("held")
        connection.recv()

    _enter(environment)
    watched = work()
    _watch(step, hold)
    result = watched()
    sys.setprofile(None)
    connection.send(result)


def _watch(step: int, interrupt: Callable[[], object]) -> None:
    numbers = itertools.count(1)  # its next() is one step for all threads

    def report(_frame: object, event: str, function: object) -> None:
        if event == "c_call" and _leaves_python(function) and next(numbers) == step:
            interrupt()

    threading.setprofile(report)
    sys.setprofile(report)


def _leaves_python(function: object) -> bool:
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__self__", None)
    if module is None and owner is None:
        return True  # compiled code that does not say where it lives: obstore
    home = module or type(owner).__module__  # a method has no module: ask its object
    name = getattr(function, "__qualname__", "")
    return home.partition(".")[0] in _LEAVES_PYTHON and name not in _HARMLESS


_start: list[Barrier] = []


def _join_race(barrier: Barrier, environment: dict[str, str]) -> None:
    _enter(environment)
    _start.append(barrier)


def _run_rounds(attempt: Callable[[int, int], object], racer: int, rounds: int) -> list[object]:
    results = []
    for number in range(rounds):
        _start[-1].wait()
        try:
            results.append(attempt(racer, number))
        except BaseException:
            _start[-1].abort()  # or the others would wait for this one
            raise
    return results
