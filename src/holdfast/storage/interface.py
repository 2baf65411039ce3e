"""What Holdfast needs of a file system, and the rules every implementation keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file; ``path`` is relative to the storage's root, with ``/`` between its parts."""

    path: str
    size: int
    modified: float
    """Seconds since 1970."""


class Storage(Protocol):
    """The files below one URI.

    Rules for every implementation, checked by ``holdfast.testing.storage``:

    1. All or nothing: after a crash inside ``publish`` a reader finds the whole file or none.
    2. Publishing the same bytes again does nothing. Other bytes raise ``AlreadyPublished``, also
       when two processes publish at the same moment: one wins, the other is told.
    3. What ``publish`` returned from is in every later ``list`` and survives a power cut.
    4. ``list`` is recursive, sorted by path, and empty for a path that does not exist or is a
       file. It never shows what is still being written by ``publish``.
    5. A file that is not there raises ``FileMissing``; whatever else goes wrong raises
       ``StorageError``. Both carry the full location as ``path``.
    6. ``delete`` of a file that is not there does nothing.
    7. Reading never writes: a directory that is only read stays byte-identical.
    8. All methods may be called from several threads.
    """

    @property
    def uri(self) -> str:
        """Where this storage is; two storages with one ``uri`` see the same files."""

    def list(self, path: str = "") -> list[FileInfo]:
        """Every file below ``path``, hidden ones too."""

    def read(self, path: str) -> bytes:
        """The whole file."""

    def open(self, path: str) -> BinaryIO:
        """The file as a stream, for what may not fit into memory. The caller closes it."""

    def publish(self, path: str, data: bytes) -> None:
        """Write a file that has not existed before."""

    def delete(self, path: str) -> None:
        """Remove a file."""

    def locate(self, path: str) -> str:
        """The full location of ``path``, as a person would type it and Spark would read it."""


class Tree(Protocol):
    """A directory that is being built and is not there until ``publish``.

    Rules for every implementation, checked by ``holdfast.testing.storage_tree``:

    1. The target must not exist: ``DestinationExists`` when the tree is begun and, if it has
       appeared since, when it is published.
    2. All or nothing: a process that dies at any moment leaves the whole tree or no tree. Where
       the file system cannot move a directory at once (object stores), the file named ``seal`` is
       written last, so that "no tree" means "no seal": a reader that asks for it is never fooled.
    3. ``publish`` returns when the tree would survive a power cut.
    4. ``discard`` removes everything that was written, and so does a ``publish`` that fails. So
       does the next tree begun for the same target, if the process that wrote it is dead and that
       can be known; else it goes on beside what is hidden, or refuses and says what to delete.
    5. ``write``, ``copy`` and ``link`` may be called from several threads.
    6. A written, copied or linked file has exactly the bytes it should have, or the call raises
       and the file is not in the tree.
    7. A tree without its ``seal`` is not published: ``UsageError``.
    """

    def write(self, path: str, data: bytes) -> None:
        """Put a new file into the tree."""

    def copy(self, source: Storage, path: str, to: str) -> int:
        """Put a copy of a file into the tree; returns its size."""

    def link(self, source: Storage, path: str, to: str) -> int:
        """Put a hard link into the tree; ``StorageError`` where that is impossible."""

    def publish(self) -> None:
        """Make the tree appear at its target."""

    def discard(self) -> None:
        """Forget the tree and what was written for it. Does nothing after ``publish``."""
