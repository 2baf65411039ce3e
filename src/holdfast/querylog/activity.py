"""Is a query running on this query log? Spark leaves no lock, so this looks for signs of life."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.querylog.log import QueryLog

_RECENT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Activity:
    """What was seen. ``running`` is sure, ``maybe_running`` is a suspicion."""

    running: bool
    maybe_running: bool
    reason: str

    @property
    def advice(self) -> str | None:
        """What is safe meanwhile."""
        if not (self.running or self.maybe_running):
            return None
        return (
            "Reading, verifying and copying are safe: files of a committed batch do not change. "
            "They may be cleaned up, so prefer recent batches. "
            "Never start a second query on this directory; start it on a copy."
        )


def find_activity(log: QueryLog, now: float) -> Activity:
    """Look for signs of a running query, surest first.

    1. The log of batches grew since it was listed. 2. A process on this machine has a file below
    the directory open. 3. Something was written within the last minute.
    """
    fresh = {info.path for info in log.storage.list("offsets")} | {
        info.path for info in log.storage.list("commits")
    }
    grown = sorted(p for p in fresh - set(log.files) if p.rpartition("/")[2].isdigit())
    if grown:
        return Activity(True, True, f"{grown[-1]} was written while this query log was read")
    holder = _process_inside(log.storage.uri)
    if holder is not None:
        return Activity(True, True, f"process {holder} has files of this query log open")
    newest = max((info.modified for info in log.files.values()), default=0.0)
    age = now - newest
    return Activity(False, age < _RECENT_SECONDS, f"last written {_ago(age)}")


def _process_inside(uri: str) -> int | None:
    """A process, other than this one, with an open file below ``uri``; Linux only."""
    proc = Path("/proc")
    if not uri.startswith("/") or not proc.is_dir():
        return None
    below = os.path.realpath(uri) + os.sep
    for folder in proc.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                open_files = [str(fd.readlink()) for fd in (folder / "fd").iterdir()]
            except OSError:
                continue  # it ended, or belongs to somebody else
            if any(name.startswith(below) for name in open_files):
                return int(folder.name)
    return None


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"
