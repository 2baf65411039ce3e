"""The time of day, by a clock that nobody can set.

It is read once, when the process starts, and goes on with the monotonic clock: a clock that is put
forward or back while a job runs neither expires its checkpoints nor delays them.
"""

from __future__ import annotations

import time

_STARTED = time.time() - time.monotonic()


def now() -> float:
    """Seconds since 1970."""
    return _STARTED + time.monotonic()
