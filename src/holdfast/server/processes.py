"""Processes of this machine: who they are, and whether they still run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its id, and when it started, since ids are used again.

    ``started`` is in ticks since the machine started; 0 where the system does not tell.
    """

    pid: int
    started: int

    @property
    def runs(self) -> bool:
        """Whether this very process runs."""
        found = process(self.pid)
        return found is not None and self.started in (0, found.started)


def process(pid: int) -> Process | None:
    """The process that has this id now; ``None`` if there is none, or if it has ended."""
    if not _PROC.joinpath("self").exists():
        return Process(pid, 0) if _signalled(pid) else None
    fields = _fields(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return Process(pid, int(fields[19]))


def own_process() -> Process:
    """This one."""
    found = process(os.getpid())
    assert found is not None
    return found


def children(pid: int) -> Iterator[int]:
    """The processes that ``pid`` has started and that still run."""
    for entry in _PROC.glob("[0-9]*"):
        fields = _fields(int(entry.name))
        if fields is not None and fields[0] != "Z" and int(fields[1]) == pid:
            yield int(entry.name)


def session(leader: int) -> list[int]:
    """The processes of a session that still run, whatever groups they have formed."""
    found = []
    for entry in _PROC.glob("[0-9]*"):
        fields = _fields(int(entry.name))
        if fields is not None and fields[0] != "Z" and int(fields[3]) == leader:
            found.append(int(entry.name))
    return found


_STATES = {
    "R": "running",
    "S": "asleep",
    "D": "waiting for a disk",
    "T": "halted by a signal",
    "t": "halted by a debugger",
    "Z": "dead",
}


def state_of(pid: int) -> str:
    """What the process is doing, in a word or two."""
    fields = _fields(pid)
    return "gone" if fields is None else _STATES.get(fields[0], fields[0])


def _fields(pid: int) -> list[str] | None:
    """State, parent and so on. The name before them, in brackets, may hold spaces."""
    with suppress(OSError):
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return None


def _signalled(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
