"""A directory on HDFS that appears at once, with everything in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import BinaryIO

from holdfast.errors import DestinationExists, StorageError, UsageError
from holdfast.storage.hadoop import HadoopStorage
from holdfast.storage.interface import Storage
from holdfast.storage.local import LocalStorage
from holdfast.storage.names import checked, is_staging_of, staging_name, temporary_name

_CHUNK = 8 << 20
_DEAD_AFTER = 24 * 3600.0


class HadoopTree:
    """Built in a hidden directory beside the target, then renamed.

    There are no locks here that die with their process. So what a dead process left is removed by
    the next tree for the same target only when it is 24 hours old, or by the owner of the place, as
    a job is of its checkpoints (``trees``). Until then nobody lists it. HDFS makes a directory that
    was deleted anew with the next file; by a mark in it we know whether it is still the same.
    """

    def __init__(self, target: str, seal: str) -> None:
        self._files = HadoopStorage(target).files
        self._target = self._files.uri.rstrip("/")
        self._seal = checked(seal)
        self._sealed = False
        self._refuse_existing()
        self._parent, _, self._name = self._target.rpartition("/")
        self._remove_remains()
        self._staging = f"{self._parent}/{staging_name(self._name)}"
        self._mark = f"{self._staging}/{temporary_name()}"
        self._files.create(self._mark, [])
        self._open = True

    def write(self, path: str, data: bytes) -> None:
        """Put a new file into the tree."""
        self._files.create(self._place(path), [data])
        self._note(path)

    def copy(self, source: Storage, path: str, to: str) -> int:
        """Put a copy of a file into the tree; returns its size."""
        place = self._place(to)
        if isinstance(source, HadoopStorage):
            size = self._files.copy_from(source.files, source.locate(path), place)
        elif isinstance(source, LocalStorage):
            size = self._files.copy_from_disk(source.locate(path), place)
        else:
            with source.open(path) as stream:
                size = self._files.create(place, _chunks(stream))
        self._note(to)
        return size

    def link(self, source: Storage, path: str, to: str) -> int:  # noqa: ARG002  same for all
        """Hadoop has no hard links."""
        raise StorageError(
            "Hadoop's file systems have no hard links",
            hint="Copy instead.",
            path=f"{self._target}/{to}",
        )

    def publish(self) -> None:
        """Make the tree appear at its target: one rename, which refuses a name that is taken."""
        try:
            if not self._sealed:
                raise UsageError(
                    "the tree has no seal yet", hint=f"Write {self._seal} into it first."
                )
            if not self._files.delete(self._mark):
                raise StorageError(
                    "what was written for this directory has been deleted meanwhile",
                    hint="Another process has taken over the place. Look which one should go on.",
                    path=self._target,
                )
            if not self._files.rename_new(self._staging, self._target):
                raise self._exists()
        except BaseException:
            self.discard()
            raise
        self._open = False

    def discard(self) -> None:
        """Forget the tree and what was written for it. Does nothing after ``publish``."""
        if self._open:
            self._open = False
            self._files.delete(self._staging)

    def _place(self, path: str) -> str:
        return f"{self._staging}/{checked(path)}"

    def _note(self, path: str) -> None:
        if path == self._seal:
            self._sealed = True

    def _refuse_existing(self) -> None:
        if self._files.exists(self._target):
            raise self._exists()

    def _exists(self) -> DestinationExists:
        return DestinationExists(
            "the target exists already",
            hint="Choose a path that does not exist, or delete what is there.",
            path=self._target,
        )

    def _remove_remains(self) -> None:
        for entry in self._files.entries_of(self._parent):
            name = entry.path.rpartition("/")[2]
            old = time.time() - entry.modified > _DEAD_AFTER
            if old and is_staging_of(name, self._name):
                self._files.delete(entry.path)


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk
