"""The saved query logs, unpacked for a test."""

from __future__ import annotations

import tarfile
from pathlib import Path

LOGS = Path(__file__).parent / "logs"
SAMPLES = tuple(
    sorted(f"{p.parent.name}/{p.name.removesuffix('.tar.xz')}" for p in LOGS.glob("*/*.tar.xz"))
)
NEWEST = "spark-4.3.0"


def unpack(sample: str, into: Path) -> Path:
    """The query log ``sample``, for instance ``spark-4.3.0/aggregation.hashmap``."""
    with tarfile.open(LOGS / f"{sample}.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into / sample.rpartition("/")[2]
