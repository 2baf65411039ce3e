"""Named steps of the protocols, at which a test can let the process die.

``HOLDFAST_CRASH_AT=store:before`` kills the process (SIGKILL) just before the step ``store``;
``store:before#3`` does so the third time. A step of a sink can be told from those of others:
``commit/out:before``. With ``HOLDFAST_CRASH_GROUP`` a whole process group dies, so that a step in
an executor's Python can take the job's process along. In production nothing is set and a step costs
a comparison.
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
    "begin",
    "invoke",
    "prepare",
    "unstaged",
    "copy",
    "acknowledge",
    "metadata",
    "store",
    "subsume",
    "commit",
    "part",
    "write",
    "fence",
    "notify",
    "delete",
    "restore",
    "claim",
    "recover",
    "abort",
)
"""In the order in which a checkpoint passes them; the last four belong to a restart.

``begin``, ``invoke``, ``prepare``, ``write`` and ``fence`` happen in the tasks of sinks, on
executors; so does ``part`` of a Kafka sink.
"""

_wanted, _, _count = os.environ.get("HOLDFAST_CRASH_AT", "").partition("#")
_passes = itertools.count(1)  # its next() is one step for all threads


@contextmanager
def step(name: str, of: str = "") -> Iterator[None]:
    """Do a step, dying before or after it if that is wanted."""
    _pass(name, of, "before")
    yield
    _pass(name, of, "after")


def _pass(name: str, of: str, when: str) -> None:
    if not _wanted or _wanted not in (f"{name}:{when}", f"{name}/{of}:{when}"):
        return
    if next(_passes) == int(_count or 1):
        if group := os.environ.get("HOLDFAST_CRASH_GROUP"):
            os.killpg(int(group), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
