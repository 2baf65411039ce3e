"""Programs from Debian's packages, installed when they are missing and this is root."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.services.processes import missing

_LOCK = Path(tempfile.gettempdir()) / "holdfast-tests-apt"
T = TypeVar("T")


def installed(find: Callable[[], T | None], packages: str, what: str) -> T:
    """What ``find`` finds, after an installation if need be."""
    found = find()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with _LOCK.open("w") as lock:  # the other half of the tests may install something too
            fcntl.flock(lock, fcntl.LOCK_EX)
            _apt_get("update")
            _apt_get("install", "-y", "--no-install-recommends", *packages.split())
        found = find()
    return found if found is not None else missing(f"no {what} (apt-get install {packages})")


def _apt_get(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", *arguments], capture_output=True, check=False, env=environment)
