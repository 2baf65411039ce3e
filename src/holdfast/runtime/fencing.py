"""Two runners of one job: the older one stops before it can publish or commit anything.

Whoever starts a job raises its epoch: it publishes ``epochs/<n>`` in the job's working directory,
with n greater than any before. Everybody looks there before each step that others could see; a
runner that finds a greater number than its own has been replaced.

Between looking and acting a moment passes. It is harmless because what is then written has a name
that only one can take: a checkpoint's id, a batch of a query log, a segment's log entry.
What is removed has no such protection: sinks abort only what has the number of their own checkpoint
or a lower one, which a successor's has not, except for a batch that is not staged; so they look
once more before they do.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast import clock
from holdfast.errors import AlreadyPublished, FileMissing, HoldfastError
from holdfast.storage import Storage

_FOLDER = "epochs"
_LEFT = "left"
_GLANCE = 0.2
PATIENCE = 15.0
"""Seconds that a runner on another machine gets to notice that it was replaced."""


class Fenced(HoldfastError):
    """Another runner has taken the job over."""

    code = "FENCED"


@dataclass(frozen=True, slots=True)
class Fence:
    """The epoch of this runner."""

    storage: Storage
    number: int
    me: bytes
    """Who this runner is, as its record says."""
    is_shared: bool = False
    """Whether the runner before it may still be there: on another machine, nobody can tell."""

    def check(self) -> None:
        """Refuse to go on when another runner has raised the epoch."""
        newest = max(_numbers(self.storage), default=0)
        if newest < self.number:  # somebody has deleted it; the next runner must find it
            with suppress(AlreadyPublished):  # another thread was quicker
                self.storage.publish(_path(self.number), self.me)
        if newest > self.number:
            other = _record(self.storage, newest)
            raise Fenced(
                "another runner has taken over the job; this one has stopped",
                hint="If that was not meant, stop the other one: a job has one runner.",
                epoch=self.number,
                newer=newest,
                host=other.get("host"),
                pid=other.get("pid"),
            )

    def leave(self) -> None:
        """Nothing of this runner writes any more; a successor need not wait."""
        self.storage.publish(f"{_FOLDER}/{self.number}.{_LEFT}", b"")

    def wait_for_predecessor(self, patience: float = PATIENCE) -> None:
        """Give a runner on another machine the time to notice."""
        deadline = time.monotonic() + patience
        while self.is_shared and time.monotonic() < deadline:
            if f"{_FOLDER}/{self.number - 1}.{_LEFT}" in _paths(self.storage):
                return
            time.sleep(_GLANCE)


def raise_epoch(storage: Storage) -> Fence:
    """Take the next epoch of a job; from now on older runners stop."""
    who = {"host": host(), "pid": os.getpid(), "id": uuid.uuid4().hex, "at": clock.now()}
    me = json.dumps(who).encode()
    while True:
        before = max(_numbers(storage), default=0)
        left = f"{_FOLDER}/{before}.{_LEFT}" in _paths(storage)
        elsewhere = before > 0 and not left and _record(storage, before).get("host") != host()
        try:
            storage.publish(_path(before + 1), me)
        except AlreadyPublished:
            continue  # somebody was quicker, and will be replaced
        _tidy(storage, before)
        return Fence(storage, before + 1, me, is_shared=elsewhere)


def elsewhere(storage: Storage) -> dict[str, Any] | None:
    """Who has the newest epoch, if that is another machine's runner that has not left."""
    newest = max(_numbers(storage), default=0)
    if newest == 0 or f"{_FOLDER}/{newest}.{_LEFT}" in _paths(storage):
        return None
    found = _record(storage, newest)
    return found if found.get("host") != host() else None


def host() -> str:
    """The name of this machine."""
    return socket.gethostname()


def _tidy(storage: Storage, before: int) -> None:
    for path in _paths(storage):
        number = int(path.rpartition("/")[2].partition(".")[0])
        if number < before:
            storage.delete(path)


def _paths(storage: Storage) -> set[str]:
    return {info.path for info in storage.list(_FOLDER)}


def _numbers(storage: Storage) -> list[int]:
    names = (path.rpartition("/")[2] for path in _paths(storage))
    return [int(name) for name in names if name.isdigit()]


def _path(number: int) -> str:
    return f"{_FOLDER}/{number}"


def _record(storage: Storage, number: int) -> dict[str, Any]:
    """Nothing if it is not there or was damaged: then nobody knows who it was."""
    try:
        found: dict[str, Any] = json.loads(storage.read(_path(number)))
    except (FileMissing, ValueError):
        return {}
    return found
