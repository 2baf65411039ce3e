"""Files of the hashmap backend (Spark's HDFS-backed store): ``<v>.delta``, ``<v>.snapshot``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.errors import DamagedFile
from holdfast.querylog.compression import compress, decompress
from holdfast.querylog.entries import Change, Entry, read_plain, write_plain
from holdfast.querylog.javadata import JavaReader


def read_delta(data: bytes, codec: str, path: str) -> Iterator[Entry]:
    """What one version changed."""
    return read_plain(JavaReader(decompress(codec, data, path), path), path)


def read_snapshot(data: bytes, codec: str, path: str) -> Iterator[Entry]:
    """Everything one version holds; a removal in it is damage."""
    for entry in read_delta(data, codec, path):
        if entry.change is not Change.PUT:
            raise DamagedFile("a snapshot must not remove keys", path=path)
        yield entry


def write_delta(entries: Iterable[Entry], codec: str) -> bytes:
    """A ``<v>.delta`` file."""
    return compress(codec, write_plain(entries))


def write_snapshot(state: Mapping[bytes, bytes], codec: str) -> bytes:
    """A ``<v>.snapshot`` file."""
    return write_delta((Entry(Change.PUT, key, value) for key, value in state.items()), codec)
