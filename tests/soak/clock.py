"""A clock that can be put forward and back, for the processes of one job."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

from tests.services.debian import installed

_SOURCE = Path(__file__).with_name("clock.c")


class FakeClock:
    """The time of day of whoever runs with its variables; the clock that only grows is left."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        self._file.write_bytes(bytes(mmap.PAGESIZE))
        library = directory / "clock.so"
        compiler = installed(lambda: shutil.which("gcc"), "gcc libc6-dev", "C compiler")
        options = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror"]
        subprocess.run([compiler, *options, "-o", str(library), str(_SOURCE)], check=True)
        self.environ = {"LD_PRELOAD": str(library), "SOAK_CLOCK": str(self._file)}

    def jump(self, seconds: int) -> None:
        """Put it so far from the true time."""
        with self._file.open("r+b") as file, mmap.mmap(file.fileno(), mmap.PAGESIZE) as memory:
            memory[:8] = struct.pack("=q", seconds)
