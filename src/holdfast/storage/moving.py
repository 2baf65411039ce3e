"""A directory into which files are linked and within which they are renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from holdfast.errors import FileMissing
from holdfast.storage import disk
from holdfast.storage.local import LocalStorage, local_path
from holdfast.storage.names import checked, scheme_of


class Folder(Protocol):
    """Files below one directory; every path is relative to it."""

    def locate(self, path: str) -> str:
        """The full location, as Spark writes to it."""

    def can_link(self, locations: Sequence[str]) -> bool:
        """Whether these files can get a second name in here."""

    def link(self, location: str, to: str) -> None:
        """Give a file from elsewhere a second name, durably but for the directory's ``sync``."""

    def make_directory(self, path: str) -> None:
        """Create a directory with its missing parents."""

    def rename(self, path: str, to: str) -> bool:
        """Rename a file into a directory that is there; ``False`` if ``path`` is gone."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it."""

    def folders(self, path: str) -> list[str]:
        """Names of the directories directly in ``path``."""

    def files(self, path: str) -> list[str]:
        """Names of the files directly in ``path``."""

    def files_below(self, path: str) -> list[tuple[str, int]]:
        """Every file below ``path``, by its path from there, with its size."""

    def sync(self, path: str) -> None:
        """Make a file, or names that came into a directory, survive a power cut."""


def open_folder(location: str) -> Folder:
    """Pick the implementation by URI."""
    if scheme_of(location) in (None, "file"):
        return LocalFolder(local_path(location))
    from holdfast.storage.hadoop_folder import HadoopFolder

    return HadoopFolder(location)


class LocalFolder:
    """On a local disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def locate(self, path: str) -> str:
        """The full location."""
        return str(self._root / checked(path))

    def can_link(self, locations: Sequence[str]) -> bool:
        """Only files on the same disk have room for another name."""
        if any(scheme_of(location) not in (None, "file") for location in locations):
            return False
        with disk.changing("create", self._root):
            disk.make_directories(self._root)
            own = self._root.stat().st_dev
        return all(_device(local_path(location)) == own for location in locations)

    def link(self, location: str, to: str) -> None:
        """Give a file from elsewhere a second name."""
        target = self._root / checked(to)
        with disk.changing("create the directory of", target):
            target.parent.mkdir(parents=True, exist_ok=True)
        with disk.reading(location):
            os.link(local_path(location), target)
            disk.sync(target)

    def make_directory(self, path: str) -> None:
        """Create a directory with its missing parents."""
        place = self._root / checked(path)
        with disk.changing("create", place):
            disk.make_directories(place)

    def rename(self, path: str, to: str) -> bool:
        """Rename a file into a directory that is there; ``False`` if ``path`` is gone."""
        origin, target = self._root / checked(path), self._root / checked(to)
        with disk.changing("rename", origin):
            try:
                origin.rename(target)
            except FileNotFoundError:
                if origin.exists():
                    raise
                return False
        return True

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return (self._root / checked(path)).exists()

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        place = self._root / checked(path)
        with disk.changing("delete", place), suppress(FileNotFoundError):
            shutil.rmtree(place)

    def folders(self, path: str) -> list[str]:
        """Names of the directories directly in ``path``."""
        return sorted(entry.name for entry in self._entries(path) if entry.is_dir())

    def files(self, path: str) -> list[str]:
        """Names of the files directly in ``path``."""
        return sorted(entry.name for entry in self._entries(path) if entry.is_file())

    def _entries(self, path: str) -> list[os.DirEntry[str]]:
        try:
            return list(os.scandir(self._root / checked(path)))
        except FileNotFoundError:
            return []

    def files_below(self, path: str) -> list[tuple[str, int]]:
        """Every file below ``path``, by its path from there, with its size."""
        storage = LocalStorage(self._root)
        prefix = f"{path}/" if path else ""
        return [(info.path.removeprefix(prefix), info.size) for info in storage.list(path)]

    def sync(self, path: str) -> None:
        """Make a file, or names that came into a directory, survive a power cut."""
        place = self._root / checked(path) if path else self._root
        with disk.changing("write", place), suppress(FileNotFoundError):
            disk.sync(place)


def _device(path: Path) -> int:
    try:
        return path.stat().st_dev
    except FileNotFoundError as error:
        raise FileMissing("there is no such file", path=str(path)) from error
