"""Named steps of the protocols, at which a test can let the process die.

``HOLDFAST_CRASH_AT=store:before`` kills the process (SIGKILL) just before the step ``store``;
``store:before#3`` does so the third time. In production the variable is not set and a step costs
one comparison.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

STEPS = (
    "start",
    "trigger",
    "barrier",
    "publish",
    "pin",
    "precommit",
    "copy",
    "acknowledge",
    "metadata",
    "store",
    "subsume",
    "commit",
    "notify",
    "delete",
    "restore",
    "recover",
)
"""In the order in which a checkpoint passes them; the last two belong to a restart."""

_wanted, _, _count = os.environ.get("HOLDFAST_CRASH_AT", "").partition("#")
_passes = itertools.count(1)  # its next() is one step for all threads


@contextmanager
def step(name: str) -> Iterator[None]:
    """Do a step, dying before or after it if that is wanted."""
    _pass(f"{name}:before")
    yield
    _pass(f"{name}:after")


def _pass(point: str) -> None:
    if point == _wanted and next(_passes) == int(_count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
