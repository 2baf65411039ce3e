"""Files on a local disk, or on anything mounted like one. Pure Python, no JVM."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from holdfast.errors import AlreadyPublished, StorageError, UsageError
from holdfast.storage import disk
from holdfast.storage.interface import FileInfo
from holdfast.storage.names import checked, is_unfinished, scheme_of, temporary_name


class LocalStorage:
    """The files below one directory. ``publish`` needs a file system with hard links.

    A process that dies inside ``publish`` may leave a file named ``.holdfast-<16 hex digits>``.
    ``list`` does not show it and nobody reads it; it can be deleted when no process is writing.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = local_path(root)

    @property
    def uri(self) -> str:
        """The absolute path of the directory."""
        return str(self.root)

    def list(self, path: str = "") -> list[FileInfo]:
        """Every file below ``path``, hidden ones too."""
        prefix = f"{checked(path)}/" if path else ""
        with disk.reading(self._at(path)):
            return sorted(_files_below(self._at(path), prefix), key=lambda file: file.path)

    def read(self, path: str) -> bytes:
        """The whole file."""
        with disk.reading(self._at(path)):
            return self._at(path).read_bytes()

    def open(self, path: str) -> BinaryIO:
        """The file as a stream. The caller closes it."""
        with disk.reading(self._at(path)):
            return self._at(path).open("rb")

    def publish(self, path: str, data: bytes) -> None:
        """Write a file that has not existed before.

        1. The bytes go into a file with a hidden name and are made durable.
        2. A hard link gives them their final name; unlike a rename it refuses to replace a file.
        3. The hidden name goes away and the directory is made durable.
        """
        final = self._at(path)
        temporary = final.with_name(temporary_name())
        with disk.changing("create the directory of", final):
            disk.make_directories(final.parent)
        with disk.changing("write", final):
            try:
                disk.write_new(temporary, data)
                self._name(temporary, final, data)
            finally:
                temporary.unlink(missing_ok=True)
                disk.sync(final.parent)

    def _name(self, temporary: Path, final: Path, data: bytes) -> None:
        try:
            os.link(temporary, final)
        except FileExistsError:
            if not final.is_file() or final.read_bytes() != data:
                raise AlreadyPublished(
                    "the file exists with other contents",
                    hint="Two processes may be writing here. Stop one of them.",
                    path=str(final),
                ) from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            raise StorageError(
                "this file system has no hard links",
                hint="Files cannot be published safely here. Choose another disk.",
                path=str(final),
            ) from error

    def delete(self, path: str) -> None:
        """Remove a file."""
        with disk.changing("delete", self._at(path)), suppress(*disk.NOT_THERE):
            self._at(path).unlink()

    def locate(self, path: str) -> str:
        """The absolute path, without a scheme: what ``open`` and Spark both understand."""
        return str(self._at(path))

    def _at(self, path: str) -> Path:
        return self.root / checked(path) if path else self.root


def local_path(location: str | Path) -> Path:
    """An absolute path from a path or a ``file:`` URI; symbolic links stay as they are."""
    text = os.fspath(location)
    if scheme_of(text) == "file":
        text = text[len("file:") :]
        if text.startswith("//"):
            host, slash, rest = text[2:].partition("/")
            if host not in ("", "localhost"):
                raise UsageError(
                    "a file: URI cannot name another machine",
                    hint=f"Write file:///{host}{slash}{rest} or a plain path.",
                    uri=os.fspath(location),
                )
            text = f"/{rest}"
    if not text:
        raise UsageError("the path is empty", hint="Use '.' for the current directory.")
    return Path(os.path.abspath(text))  # noqa: PTH100  Path.absolute keeps '..', resolve() follows links


def _files_below(directory: Path | str, prefix: str) -> Iterator[FileInfo]:
    try:
        entries = os.scandir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if is_unfinished(entry.name):
                continue
            if entry.is_dir():
                yield from _files_below(entry.path, f"{prefix}{entry.name}/")
            else:
                yield from _described(entry, prefix)


def _described(entry: os.DirEntry[str], prefix: str) -> Iterator[FileInfo]:
    try:
        found = entry.stat()
    except FileNotFoundError:
        return  # deleted since the directory was read, by a query that is running
    yield FileInfo(f"{prefix}{entry.name}", found.st_size, found.st_mtime)
