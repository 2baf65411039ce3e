"""Logs of runners that died: each new runner begins its own, and the last few are kept."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

KEPT = 5


def set_aside(log: Path) -> Path:
    """Make room for the next runner's log; returns where this one is now, ``<name>.log.1``."""
    with suppress(OSError):
        for number in range(KEPT - 1, 0, -1):
            if (older := _numbered(log, number)).exists():
                older.replace(_numbered(log, number + 1))
        if log.exists():
            log.replace(_numbered(log, 1))
    return _numbered(log, 1)


def _numbered(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
