"""A directory on HDFS, or on any other file system that Spark reaches through Hadoop."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import StorageError
from holdfast.spark.hadoop import HadoopFiles
from holdfast.storage.names import checked


class HadoopFolder:
    """Nothing can be linked here; a rename is one step."""

    def __init__(self, uri: str) -> None:
        self._files = HadoopFiles(uri)
        self._root = self._files.uri.rstrip("/")

    def locate(self, path: str) -> str:
        """The full location."""
        return self._at(path)

    def can_link(self, locations: Sequence[str]) -> bool:
        """There are no hard links."""
        return not locations

    def link(self, location: str, to: str) -> None:
        """There are no hard links."""
        raise StorageError("this file system has no hard links", path=self._at(to), origin=location)

    def make_directory(self, path: str) -> None:
        """Create a directory with its missing parents."""
        self._files.make_directory(self._at(path))

    def rename(self, path: str, to: str) -> bool:
        """Rename a file into a directory that is there; ``False`` if ``path`` is gone.

        In an object store it is a copy and a deletion. If only the copy was made, it stays.
        """
        if not self._files.exists(self._at(path)):
            return False
        self._files.rename_new(self._at(path), self._at(to))
        return True

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        return self._files.exists(self._at(path))

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it."""
        self._files.delete(self._at(path))

    def folders(self, path: str) -> list[str]:
        """Names of the directories directly in ``path``."""
        return [name for name in self._names(path) if self._is_folder(path, name)]

    def files(self, path: str) -> list[str]:
        """Names of the files directly in ``path``."""
        return [name for name in self._names(path) if not self._is_folder(path, name)]

    def files_below(self, path: str) -> list[tuple[str, int]]:
        """Every file below ``path``, by its path from there, with its size."""
        prefix = f"{self._at(path)}/"
        found = self._files.files_below(self._at(path))
        return sorted((file.path.removeprefix(prefix), file.size) for file in found)

    def _is_folder(self, path: str, name: str) -> bool:
        return self._files.is_directory(f"{self._at(path)}/{name}")

    def _names(self, path: str) -> list[str]:
        entries = self._files.entries_of(self._at(path))
        return sorted(entry.path.rstrip("/").rpartition("/")[2] for entry in entries)

    def sync(self, path: str) -> None:
        """Files are durable when they are written, names when they are renamed."""

    def _at(self, path: str) -> str:
        return f"{self._root}/{checked(path)}" if path else self._root
