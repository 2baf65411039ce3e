"""How a runner ended: with an answer, which is passed on, or by dying, after which it restarts."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.supervision.messages import Over

ENVIRONMENT = 4
"""Exit code: storage or environment failed."""
LOST = 75
"""Exit code: the runner could not go on, and another one can. As ``EX_TEMPFAIL`` of sysexits."""

_LARGEST_ANSWER = 64
_STOPPING = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)
_STOPPED = frozenset(128 + number for number in _STOPPING)


@dataclass(frozen=True, slots=True)
class End:
    """All that is known about the end of a runner."""

    code: int
    """Its exit code; negative if a signal ended it."""
    over: Over | None = None
    """What it said before."""
    dying: str | None = None
    """Why it ended, in its own words."""
    killed: str | None = None
    """Why the supervisor killed it."""
    was_ending: str | None = None
    """The state in which it was killed, if that is one in which a job ends."""
    asked: int | None = None
    """The signal with which it was asked to end."""
    is_restart: bool = False
    has_begun: bool = True
    """Whether this runner, or one before it, has got so far as to have a job."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The job has ended, or cannot begin: nothing is to be done but to pass on the exit code."""

    code: int


@dataclass(frozen=True, slots=True)
class Died:
    """The runner died, and says nothing about the job."""

    why: str


@dataclass(frozen=True, slots=True)
class Halfway:
    """The job was to end, by its own decision or somebody's, and the runner hung at that."""

    why: str


Verdict: TypeAlias = Answer | Died | Halfway


def verdict(end: End) -> Verdict:
    """What to make of it.

    What keeps a job from starting is an answer to whoever starts it. For a job that ran before,
    storage that cannot be reached is a reason to try again.
    """
    if end.over is not None:
        return Answer(end.over.code)
    if end.asked is not None:
        return Answer(end.code if _is_answer(end.code) else 128 + end.asked)
    if end.was_ending is not None:
        return Halfway(f"{_why(end)}; the job was {end.was_ending}, so it is not started again")
    if end.killed is None and end.code >= 0 and not end.has_begun:
        return Answer(end.code)
    try_again = end.is_restart and end.code == ENVIRONMENT
    if end.killed is None and _is_answer(end.code) and not try_again:
        return Answer(end.code)
    return Died(_why(end))


def _is_answer(code: int) -> bool:
    return 0 <= code <= _LARGEST_ANSWER or code in _STOPPED


def _why(end: End) -> str:
    if end.killed is not None:
        return f"the runner {end.killed}"
    if end.code < 0:
        return f"the runner was killed by {_name(-end.code)}"
    if end.dying is not None:
        return f"the runner could not go on: {end.dying}"
    return f"the runner ended with exit code {end.code}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
