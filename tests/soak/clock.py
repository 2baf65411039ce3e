"""A clock that can be put forward and back, for the processes of one job."""

from __future__ import annotations

from pathlib import Path

from tests.services.debian import installed

_LIBRARY = "faketime/libfaketimeMT.so.1"


class FakeClock:
    """The time of day of whoever runs with its variables; the clock that only grows is left."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        self.environ = {
            "LD_PRELOAD": installed(_find, "faketime", "clock to put forward and back"),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",  # its name in older versions
            "NO_FAKE_STAT": "1",  # Java's class archive is compared with the times of its files
        }
        self.jump(0)

    def jump(self, seconds: int) -> None:
        """Put it so far from the true time."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s\n")
        fresh.replace(self._file)


def _find() -> str | None:
    return next((str(path) for path in Path("/usr/lib").glob(f"*/{_LIBRARY}")), None)
