"""One Parquet file written by Spark, which itself only writes directories of them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import DestinationExists, StorageError, UsageError
from holdfast.storage.disk import changing, sync
from holdfast.storage.names import is_staging_of, scheme_of, staging_name

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@dataclass(frozen=True, slots=True)
class Target:
    """``directory`` is for Spark to create; ``file`` is there afterwards."""

    file: Path
    directory: Path

    def rows(self) -> int:
        """Rows in the finished file."""
        from pyarrow import parquet

        return int(parquet.read_metadata(self.file).num_rows)


@contextmanager
def write_one_parquet(file: str) -> Iterator[Target]:
    """Let Spark write into a hidden directory beside ``file``, then give its one file that name.

    The file appears whole and durable, or not at all, and never replaces another. The directory is
    locked while its process lives, so that the next export to the same file can tell the remains of
    one that was killed, and removes them.
    """
    path = _checked(file)
    with changing("write beside", path):
        _remove_remains(path)
        staging = path.with_name(staging_name(path.name))
        staging.mkdir()
        lock = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _try_lock(lock)
        target = Target(path, staging / "rows")
        yield target
        _publish(target)
    finally:
        os.close(lock)
        shutil.rmtree(staging, ignore_errors=True)


def _checked(file: str) -> Path:
    if scheme_of(file) not in (None, "file"):
        raise UsageError(
            "--export writes to this machine's disk only",
            hint="Export to a local file and upload it.",
            path=file,
        )
    path = Path(file.removeprefix("file://").removeprefix("file:")).absolute()
    if os.path.lexists(path):
        raise _exists(path)
    if not path.parent.is_dir():
        raise UsageError("the directory for the export does not exist", path=str(path.parent))
    return path


def _exists(path: Path) -> DestinationExists:
    return DestinationExists(
        "the file exists already",
        hint="Choose another name, or delete it.",
        path=str(path),
    )


def _publish(target: Target) -> None:
    parts = sorted(target.directory.glob("part-*.parquet"))
    if len(parts) != 1:
        raise StorageError(f"Spark wrote {len(parts)} files, not one", path=str(target.directory))
    with changing("write", target.file):
        sync(parts[0])
        try:
            _name(parts[0], target.file)
        except FileExistsError:
            raise _exists(target.file) from None
        sync(target.file.parent)


def _name(part: Path, file: Path) -> None:
    try:
        os.link(part, file)  # unlike a rename it refuses to replace a file
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        part.rename(file)


def _remove_remains(path: Path) -> None:
    for found in path.parent.iterdir():
        if is_staging_of(found.name, path.name):
            lock = os.open(found, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if _try_lock(lock):
                    shutil.rmtree(found, ignore_errors=True)
            finally:
                os.close(lock)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # its process lives, or this file system has no locks
    return True
