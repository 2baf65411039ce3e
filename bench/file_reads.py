"""Which files were read, and which share their bytes with others: the file system tells."""

from __future__ import annotations

import os
from pathlib import Path


class Reads:
    """The bytes of files below a directory that are read from now on, each file once.

    Access times are set back to 1970; a read brings them to the present. With the usual mount
    option, ``relatime``, that happens for times before the last change only.
    """

    def __init__(self, directory: Path) -> None:
        self._files = _files(directory)
        for file in self._files:
            _forget_reads(file)
        _refuse_if_not_told(self._files[0])

    def size(self) -> int:
        """Bytes of the files that were read since."""
        found = [file.stat() for file in self._files]
        return sum(each.st_size for each in found if each.st_atime_ns)


def _refuse_if_not_told(file: Path) -> None:
    file.read_bytes()
    if not file.stat().st_atime_ns:
        raise RuntimeError(f"reads cannot be seen here: {file} is on a disk mounted with noatime")
    _forget_reads(file)


def _forget_reads(file: Path) -> None:
    os.utime(file, ns=(0, file.stat().st_mtime_ns))


def written_anew(directory: Path, origin: Path) -> int:
    """Bytes of files in a directory that are no hard links to files in the other."""
    known = {(each.st_dev, each.st_ino) for each in map(os.stat, _files(origin))}
    found = [file.stat() for file in _files(directory)]
    return sum(each.st_size for each in found if (each.st_dev, each.st_ino) not in known)


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]
