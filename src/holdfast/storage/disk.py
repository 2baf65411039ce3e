"""The local disk, one careful step at a time: copying, making durable, explaining failures."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import FileMissing, StorageError

_CHUNK = 1 << 20
_KERNEL_COPY = 1 << 30

# What copy_file_range says where the kernel or the pair of file systems cannot do it.
_NO_KERNEL_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}

NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""No file can be read under this name, as an object store would see it."""


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn an ``OSError`` into ``FileMissing`` or a ``StorageError`` that names the path."""
    try:
        yield
    except NOT_THERE as error:
        raise FileMissing("there is no such file", path=str(path)) from error
    except OSError as error:
        raise failure("read", path, error) from error


@contextmanager
def changing(doing: str, path: str | Path) -> Iterator[None]:
    """Turn an ``OSError`` into a ``StorageError`` that names the path and the next step."""
    try:
        yield
    except OSError as error:
        raise failure(doing, path, error) from error


def failure(doing: str, path: str | Path, error: OSError) -> StorageError:
    """The ``StorageError`` for an ``OSError``."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StorageError(f"cannot {doing}: {reason}", hint=_hint(error.errno, path), path=str(path))


def _hint(code: int | None, path: str | Path) -> str | None:
    match code:
        case errno.ENOSPC | errno.EDQUOT:
            return f"Free some space{_space_left(path)}, or choose a target on another disk."
        case errno.EROFS:
            return "The file system is mounted read-only. Choose another target or remount it."
        case errno.EACCES | errno.EPERM:
            return f"User id {os.geteuid()} may not do this. Change the owner or mode, or the user."
        case errno.EMFILE | errno.ENFILE:
            return "Too many files are open. Raise the limit with 'ulimit -n'."
        case errno.ENAMETOOLONG:
            return "Choose a shorter name."
        case errno.EXDEV | errno.EMLINK:
            return "A hard link cannot be made here. Copy the file instead."
        case errno.EIO:
            return "The disk reports an error. Look at the system log before trusting this disk."
        case _:
            return None


def _space_left(path: str | Path) -> str:
    for place in (Path(path), *Path(path).parents):
        try:
            free = shutil.disk_usage(place).free
        except OSError:
            continue
        return f" (there are {free:,} bytes left at {place})"
    return ""


def sync(path: str | Path) -> None:
    """Make a file's bytes, or a directory's entries, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents so that they survive a power cut."""
    if path.is_dir():
        return
    make_directories(path.parent)
    path.mkdir(exist_ok=True)
    sync(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Create a file that must not exist, durable before this returns (its name is not, yet)."""
    with path.open("xb", buffering=0) as out:
        write_all(out.fileno(), data)
        os.fsync(out.fileno())


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte; one ``write`` may take only some of them."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def copy_bytes(source: int, to: int) -> int:
    """Copy from one open file to another, inside the kernel where it can; returns the count."""
    copied = _copy_in_kernel(source, to)
    # Some files say they are at their end to the kernel copy when they are not: ask them again.
    return copied + _copy_by_reading(source, to)


def _copy_in_kernel(source: int, to: int) -> int:
    copied = 0
    if not hasattr(os, "copy_file_range"):  # Linux only
        return copied
    try:
        while count := os.copy_file_range(source, to, _KERNEL_COPY):
            copied += count
    except OSError as error:
        if error.errno not in _NO_KERNEL_COPY:
            raise
    return copied


def _copy_by_reading(source: int, to: int) -> int:
    copied = 0
    while chunk := os.read(source, _CHUNK):
        write_all(to, chunk)
        copied += len(chunk)
    return copied
