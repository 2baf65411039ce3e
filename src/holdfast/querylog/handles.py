"""The state handle with checksums, for whoever keeps or compares files."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from holdfast.querylog.checksums import crc32c, decode_spark_checksum, spark_checksum_path
from holdfast.querylog.log import QueryLog, open_log
from holdfast.querylog.needs import NeededFile
from holdfast.querylog.progress import Meter, Progress, in_parallel
from holdfast.querylog.selection import restorable_plan


@dataclass(frozen=True, slots=True)
class HandleFile:
    """One file that is needed."""

    path: str
    size: int
    crc32c: str


@dataclass(frozen=True, slots=True)
class StateHandle:
    """Exactly the files that are enough to restart a query from ``batch``."""

    batch: int
    query_id: str
    files: tuple[HandleFile, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(file.size for file in self.files)


def handle(
    location: str | PathLike[str], batch: int | None = None, progress: Progress | None = None
) -> StateHandle:
    """The state handle of a committed batch (the newest by default).

    Reads every file once to checksum it, except state files that Spark has checksummed itself
    (format 2). Raises ``NotRestorable`` if a file that is needed is missing.
    """
    log = open_log(location)
    plan = restorable_plan(log, batch)
    meter = Meter(sum(file.size for file in plan.files), progress)

    def checksummed(file: NeededFile) -> HandleFile:
        value = _checksum(log, file.path)
        meter.add(file.size)
        return HandleFile(file.path, file.size, f"{value:08x}")

    return StateHandle(plan.batch, log.query_id, tuple(in_parallel(checksummed, plan.files)))


def _checksum(log: QueryLog, path: str) -> int:
    known = spark_checksum_path(path)
    if known in log.files:
        return decode_spark_checksum(log.read(known), log.storage.locate(known)).crc32c
    return crc32c(log.read(path))
