"""Temporary files of runners, in directories that are deleted when a runner has ended.

A runner that is killed deletes nothing, and what Spark leaves (loaded state, shuffles, libraries)
is large. When the supervisor is killed too, the directories stay until another supervisor starts
on this machine: it sees that nobody holds their locks any more. The runner holds them as well, for
it may outlive its supervisor for a while.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_log = logging.getLogger(__name__)
_PREFIX = "holdfast-runner-"
_LOCK = ".lock"
_SPARK = "SPARK_LOCAL_DIRS"


class Scratch:
    """The directories of one runner."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._temporary = Room(Path(environ.get("TMPDIR") or tempfile.gettempdir()))
        named = [Path(name) for name in environ.get(_SPARK, "").split(",") if name]
        self._for_spark = [Room(base) for base in named]

    @property
    def environ(self) -> dict[str, str]:
        """The variables that lead there."""
        chosen = {"TMPDIR": str(self._temporary.path)}
        if self._for_spark:
            chosen[_SPARK] = ",".join(str(room.path) for room in self._for_spark)
        return chosen

    @property
    def locks(self) -> list[int]:
        """File descriptors for the runner to keep open."""
        return [room.lock for room in (self._temporary, *self._for_spark)]

    def delete(self) -> None:
        """The runner has ended."""
        for room in (self._temporary, *self._for_spark):
            room.delete()


class Room:
    """A directory that is in use as long as somebody holds its lock."""

    def __init__(self, base: Path) -> None:
        base.mkdir(parents=True, exist_ok=True)
        sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        unnamed = self.path / f"{_LOCK}.new"  # nobody looks for it before it is locked
        self._lock = unnamed.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    @property
    def lock(self) -> int:
        """The file descriptor that holds it."""
        return self._lock.fileno()

    def delete(self) -> None:
        """Delete it with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def sweep(base: Path) -> None:
    """Delete what supervisors have left there that were killed together with their runners."""
    for path in base.glob(f"{_PREFIX}*/{_LOCK}"):
        if _is_abandoned(path):
            _log.info("%s was left by a runner that was killed: deleted", path.parent)
            shutil.rmtree(path.parent, ignore_errors=True)


def _is_abandoned(lock: Path) -> bool:
    with suppress(OSError):  # somebody else's, in use, or just deleted
        handle = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(handle)
    return False
