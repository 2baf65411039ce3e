"""Files on HDFS, or on any other file system that Spark reaches through Hadoop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

from holdfast.errors import AlreadyPublished, FileMissing
from holdfast.spark.hadoop import HadoopFiles
from holdfast.storage.interface import FileInfo
from holdfast.storage.names import checked, is_unfinished, temporary_name
from holdfast.storage.streams import stream_of


class HadoopStorage:
    """The files below one directory. Starts a local Spark if this process has none.

    ``publish`` is as good as the file system's rename: in one step on HDFS. A process that dies
    inside it may leave a file named ``.holdfast-<16 hex digits>``, which ``list`` does not show.
    """

    def __init__(self, uri: str) -> None:
        self.files = HadoopFiles(uri)

    @property
    def uri(self) -> str:
        """The full URI, with host and port."""
        return self.files.uri.rstrip("/")

    def list(self, path: str = "") -> list[FileInfo]:
        """Every file below ``path``, hidden ones too."""
        return sorted(self._finished(path), key=lambda file: file.path)

    def _finished(self, path: str) -> Iterator[FileInfo]:
        for file in self.files.files_below(self.locate(path)):
            relative = file.path.removeprefix(f"{self.uri}/")
            if not any(is_unfinished(part) for part in relative.split("/")):
                yield FileInfo(relative, file.size, file.modified)

    def read(self, path: str) -> bytes:
        """The whole file."""
        return b"".join(self.files.chunks(self.locate(path)))

    def open(self, path: str) -> BinaryIO:
        """The file as a stream. The caller closes it."""
        chunks = self.files.chunks(self.locate(path))
        return stream_of(chunks, chunks.close)

    def publish(self, path: str, data: bytes) -> None:
        """Write a file that has not existed before: durably, under a hidden name, then rename."""
        final = self.locate(path)
        temporary = f"{final.rpartition('/')[0]}/{temporary_name()}"
        try:
            self.files.create(temporary, [data])
            if not self.files.rename_new(temporary, final) and not self._has(path, data):
                raise AlreadyPublished(
                    "the file exists with other contents",
                    hint="Two processes may be writing here. Stop one of them.",
                    path=final,
                )
        finally:
            self.files.delete(temporary)

    def _has(self, path: str, data: bytes) -> bool:
        with suppress(FileMissing):  # it is a directory
            return self.read(path) == data
        return False

    def delete(self, path: str) -> None:
        """Remove a file."""
        with suppress(FileMissing):
            if not self.files.is_directory(self.locate(path)):
                self.files.delete(self.locate(path))

    def locate(self, path: str) -> str:
        """The full URI of a file."""
        return f"{self.uri}/{checked(path)}" if path else self.uri
