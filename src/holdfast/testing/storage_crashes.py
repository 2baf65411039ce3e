"""Processes that are killed at their n-th call out of Python, and processes that race.

``kill -9`` at every step is how the storage contracts check "all or nothing". No storage needs to
cooperate: the interpreter reports every call that leaves Python.
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
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier
from typing import Any

Work = Callable[[], object]
"""What a process does. It is pickled: use functions of a module and ``functools.partial``."""

_LEAVES_PYTHON = {"posix", "fcntl", "io", "_io", "socket"}
_HARMLESS = {"fspath", "urandom", "stat", "lstat", "fstat", "getpid", "FileIO.fileno"}
_PATIENCE = 300


def kill_at_every_step(work: Work) -> Iterator[int]:
    """Run ``work`` in a process that dies at step 1, then at step 2, and so on until it finishes.

    Yields the number of each step after the process has died there, for the caller to look at what
    is left and to tidy up.
    """
    return itertools.takewhile(partial(kill_at, work), itertools.count(1))


def kill_at_some_steps(work: Work, how_many: int) -> Iterator[int]:
    """As ``kill_at_every_step``, for what takes too long to be done at every one.

    It takes one process more, to count the steps. What that one made is the caller's to remove:
    it is yielded as step 0.
    """
    with ProcessPoolExecutor(1, _processes(), _enter, (dict(os.environ),)) as pool:
        last = pool.submit(_count_steps, work).result()
    yield 0
    for step in range(1, last + 1, max(1, last // how_many)):
        if kill_at(work, step):
            yield step


def kill_at(work: Work, step: int) -> bool:
    """Whether a process doing ``work`` died at that step; ``False`` if it finished before."""
    process = _processes().Process(target=_die_at, args=(work, step, dict(os.environ)))
    process.start()
    process.join(_PATIENCE)
    if process.exitcode not in (0, -signal.SIGKILL):
        process.kill()
        raise AssertionError(f"at step {step} the process ended with {process.exitcode}")
    return process.exitcode != 0


def race(attempt: Callable[[int, int], object], racers: int, rounds: int) -> list[list[Any]]:
    """Call ``attempt(racer, round)`` in every racer at the same moment, round by round.

    Each racer is a process. Returns, for each round, what each racer returned.
    """
    processes = _processes()
    barrier = processes.Barrier(racers, timeout=_PATIENCE)
    with ProcessPoolExecutor(racers, processes, _join_race, (barrier, dict(os.environ))) as pool:
        runs = [pool.submit(_run_rounds, attempt, racer, rounds) for racer in range(racers)]
        return [list(results) for results in zip(*(run.result() for run in runs), strict=True)]


def _processes() -> ForkServerContext:
    # Not "fork": the copy of a process with threads inherits their locks, held for ever.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["holdfast.storage"])
    return context


def _enter(environment: dict[str, str]) -> None:
    # The server that forks has the environment of the moment when it was started.
    os.environ.update(environment)


def _die_at(work: Work, step: int, environment: dict[str, str]) -> None:
    _enter(environment)

    def count(number: int) -> None:
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)

    _watch(count)
    work()
    os._exit(0)  # at once: tidying up after the work is not a step of it


def _count_steps(work: Work) -> int:
    steps: list[int] = []
    _watch(steps.append)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(steps)


def _watch(count: Callable[[int], None]) -> None:
    numbers = itertools.count(1)  # its next() is one step for all threads

    def report(_frame: object, event: str, function: object) -> None:
        if event == "c_call" and _leaves_python(function):
            count(next(numbers))

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
        results.append(attempt(racer, number))
    return results
