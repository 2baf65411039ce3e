"""Server processes, and what to do when a server cannot be had."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from holdfast.testing.servers import LOOPBACK, free_ports, listens, running, wait_until

__all__ = ["LOOPBACK", "free_ports", "listens", "missing", "running", "wait_until"]


def missing(what: str) -> NoReturn:
    """A service that cannot be started: a reason to skip on a laptop, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have it: {what}")
    pytest.skip(what)
