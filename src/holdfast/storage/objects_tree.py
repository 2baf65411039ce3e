"""A directory in an object store. It cannot appear at once, so its seal comes last."""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import BinaryIO

import obstore

from holdfast.errors import (
    AlreadyPublished,
    DestinationExists,
    FileMissing,
    StorageError,
    UsageError,
)
from holdfast.storage.interface import Storage
from holdfast.storage.names import CLAIM, checked
from holdfast.storage.objects import ObjectStorage, explained

_CHUNK = 8 << 20
_PARTS_AT_ONCE = 4
_LARGEST_SERVER_COPY = 5 << 30  # S3 copies no larger object in one request


class ObjectTree:
    """Built in place, below the final prefix. Whoever asks for the seal is not fooled.

    The first object written is a *claim*. Stores create an object only if it is absent, so of two
    processes one gets the claim, and everything below the prefix is its work. Whether the owner of
    a claim is alive cannot be known here: if it dies, a person must delete what it left, or whoever
    owns the place, as a job does its checkpoints (``trees``). A tree without its claim has lost
    files too and is not published. A process that dies in the middle of a large file may leave
    parts of it that cost money and that no list shows; a lifecycle rule on the bucket ("abort
    incomplete multipart uploads") removes them.
    """

    def __init__(self, target: str, seal: str) -> None:
        self._files = ObjectStorage(target)
        self._seal_path = checked(seal)
        self._seal: bytes | None = None
        self._refuse_existing()
        self._me = _who_and_when()
        self._claim()
        self._open = True

    def write(self, path: str, data: bytes) -> None:
        """Put a new file into the tree."""
        if path == self._seal_path:
            self._seal = data
            return
        self._put(path, iter([data]))

    def copy(self, source: Storage, path: str, to: str) -> int:
        """Put a copy of a file into the tree; returns its size."""
        if to == self._seal_path:
            self._seal = source.read(path)
            return len(self._seal)
        if isinstance(source, ObjectStorage) and source.root == self._files.root:
            with explained("read", source.locate(path)):
                size = obstore.head(self._files.store, source.key(path))["size"]
            if size <= _LARGEST_SERVER_COPY:
                with explained("copy", source.locate(path)):
                    obstore.copy(self._files.store, source.key(path), self._files.key(to))
                return size
        with source.open(path) as stream:
            return self._put(to, _chunks(stream))

    def link(self, source: Storage, path: str, to: str) -> int:  # noqa: ARG002  same for all
        """Object stores have no links."""
        raise StorageError(
            "an object store has no links", hint="Copy instead.", path=self._files.locate(to)
        )

    def publish(self) -> None:
        """Make the tree appear at its target: write the seal, then give up the claim."""
        try:
            if self._seal is None:
                raise UsageError(
                    "the tree has no seal yet", hint=f"Write {self._seal_path} into it first."
                )
            self._files.publish(self._seal_path, self._seal)
        except AlreadyPublished as error:
            self._open = False  # it is another's tree now: delete nothing
            raise self._exists() from error
        except BaseException:
            self.discard()
            raise
        self._open = False
        self._refuse_lost_claim()
        self._files.delete(CLAIM)

    def _refuse_lost_claim(self) -> None:
        try:
            if self._files.read(CLAIM) == self._me:
                return
        except FileMissing:
            pass
        self._files.delete(self._seal_path)
        raise StorageError(
            "what was written for this directory has been deleted meanwhile",
            hint="Another process has taken over the place. Look which one should go on.",
            path=self._files.uri,
        )

    def discard(self) -> None:
        """Forget the tree and what was written for it. Does nothing after ``publish``."""
        if not self._open:
            return
        self._open = False
        keys = [self._files.key(file.path) for file in self._files.list()]
        with explained("delete", self._files.uri), suppress(FileNotFoundError):
            obstore.delete(self._files.store, keys)
        self._files.delete(CLAIM)

    def _put(self, path: str, chunks: Iterator[bytes]) -> int:
        """One request for a small file, parts for a large one; never all of it in memory."""
        start = list(itertools.islice(chunks, 2))
        counted = _Counted(itertools.chain(start, chunks))
        with explained("write", self._files.locate(path)):
            if len(start) < 2:
                data = b"".join(counted)
                obstore.put(self._files.store, self._files.key(path), data, use_multipart=False)
            else:
                obstore.put(
                    self._files.store,
                    self._files.key(path),
                    counted,
                    use_multipart=True,
                    chunk_size=_CHUNK,
                    max_concurrency=_PARTS_AT_ONCE,
                )
        return counted.size

    def _refuse_existing(self) -> None:
        found = {file.path for file in self._files.list_all()}
        if CLAIM in found:
            raise self._unfinished()
        if found or self._is_a_file():
            raise self._exists()

    def _is_a_file(self) -> bool:
        try:
            with explained("read", self._files.uri):
                obstore.head(self._files.store, self._files.prefix.rstrip("/"))
        except FileMissing:
            return False
        return True

    def _claim(self) -> None:
        try:
            self._files.publish(CLAIM, self._me)
        except AlreadyPublished as error:
            raise self._unfinished() from error
        # Between the look and the claim another tree may have come and been published.
        if self._files.list():
            self._files.delete(CLAIM)
            raise self._exists()

    def _exists(self) -> DestinationExists:
        return DestinationExists(
            "the target exists already",
            hint="Choose a path where nothing is, or delete what is there.",
            path=self._files.uri,
        )

    def _unfinished(self) -> DestinationExists:
        try:
            claim = json.loads(self._files.read(CLAIM))
            by = f"begun {claim['began']} by process {claim['process']} on {claim['host']}"
        except (StorageError, ValueError, KeyError):
            by = "begun by another process"
        return DestinationExists(
            "the target is being written, or was when its writer died",
            hint=f"It is an unfinished copy, {by}. If that process is gone, delete everything "
            f"below {self._files.uri}/ and try again.",
            path=self._files.uri,
        )


def _who_and_when() -> bytes:
    began = datetime.now(UTC).isoformat(timespec="milliseconds")
    who = {"began": began, "host": socket.gethostname(), "process": os.getpid()}
    return json.dumps(who).encode()


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


class _Counted:
    """Chunks on their way, and how many bytes went by."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.size += len(chunk)
            yield chunk
