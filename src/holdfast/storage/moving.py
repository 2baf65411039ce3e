"""A directory into which files are brought and within which they are renamed."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from holdfast.errors import FileMissing
from holdfast.storage import disk
from holdfast.storage.local import local_path
from holdfast.storage.names import checked, scheme_of


class Folder(Protocol):
    """Files below one directory; every path is relative to it."""

    def bring(self, location: str, to: str) -> None:
        """Put a file from elsewhere at ``to``."""

    def rename(self, path: str, to: str) -> None:
        """Rename; nothing to do if ``path`` is gone and ``to`` is there."""

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it."""

    def folders(self, path: str) -> list[str]:
        """Names of the directories directly in ``path``."""

    def sync(self, path: str) -> None:
        """Make what was brought to or renamed into a directory survive a power cut."""


def open_folder(location: str) -> Folder:
    """Pick the implementation by URI."""
    if scheme_of(location) in (None, "file"):
        return LocalFolder(local_path(location))
    from holdfast.storage.hadoop_folder import HadoopFolder

    return HadoopFolder(location)


class LocalFolder:
    """On a local disk: hard links where they are possible, copies elsewhere."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def bring(self, location: str, to: str) -> None:
        """Put a file from elsewhere at ``to``."""
        target = self._root / checked(to)
        if scheme_of(location) not in (None, "file"):
            _download(location, target)
            return
        origin = local_path(location)
        with disk.changing("create the directory of", target):
            target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(origin, target)
        except FileNotFoundError as error:
            raise FileMissing("there is no such file", path=str(origin)) from error
        except OSError:  # another disk, or no links there
            with disk.changing("write", target):
                shutil.copyfile(origin, target)
        with disk.changing("write", target):
            disk.sync(target)

    def rename(self, path: str, to: str) -> None:
        """Rename; nothing to do if ``path`` is gone and ``to`` is there."""
        origin, target = self._root / checked(path), self._root / checked(to)
        try:
            origin.rename(target)
        except FileNotFoundError as error:
            if not target.exists():
                raise FileMissing("a file to be committed is gone", path=str(origin)) from error

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it, and parents that are then empty."""
        place = self._root / checked(path)
        with disk.changing("delete", place), suppress(FileNotFoundError):
            shutil.rmtree(place)
        for parent in place.parents:
            if parent == self._root:
                break
            try:
                parent.rmdir()
            except OSError:
                break

    def folders(self, path: str) -> list[str]:
        """Names of the directories directly in ``path``."""
        try:
            return sorted(e.name for e in os.scandir(self._root / checked(path)) if e.is_dir())
        except FileNotFoundError:
            return []

    def sync(self, path: str) -> None:
        """Make a directory durable."""
        place = self._root / checked(path) if path else self._root
        with suppress(FileNotFoundError), disk.changing("write", place):
            disk.sync(place)


def _download(location: str, target: Path) -> None:
    from holdfast.storage import open_storage

    parent, _, name = location.rpartition("/")
    with disk.changing("create the directory of", target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with open_storage(parent).open(name) as stream, target.open("wb") as out:
        shutil.copyfileobj(stream, out)
        out.flush()
        os.fsync(out.fileno())
