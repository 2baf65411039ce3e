"""The key-value records inside state files: hashmap deltas and snapshots, RocksDB changelogs.

Two framings exist. The plain one (hashmap files, changelogs 1 and 3) has no type byte: a value
length of -1 is a removal and a key length of -1 the end. The typed one (changelogs 2 and 4)
begins each record with a byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from holdfast.errors import DamagedFile
from holdfast.querylog.javadata import JavaReader, java_int


class Change(Enum):
    """What a record does to its key; the value is the byte that stands for it."""

    PUT = 0x01
    DELETE = 0x10
    MERGE = 0x11
    DELETE_RANGE = 0x20


@dataclass(frozen=True, slots=True)
class Entry:
    """One record. For ``DELETE_RANGE`` the value is the first key that stays."""

    change: Change
    key: bytes
    value: bytes = b""


_END = 0x00
_TYPED = {change.value: change for change in Change}


def read_plain(reader: JavaReader, path: str) -> Iterator[Entry]:
    """Records of the plain framing, up to the end mark, which must be the last thing."""
    while (length := reader.int32()) != -1:
        key = reader.take(length)
        size = reader.int32()
        yield Entry(Change.DELETE, key) if size == -1 else Entry(Change.PUT, key, reader.take(size))
    _expect_end(reader, path)


def read_typed(reader: JavaReader, path: str) -> Iterator[Entry]:
    """Records of the typed framing, up to the end mark, which must be the last thing."""
    while (mark := reader.byte()) != _END:
        change = _TYPED.get(mark)
        if change is None:
            raise DamagedFile("unknown kind of record in a changelog", path=path, kind=hex(mark))
        key = reader.take(reader.int32())
        size = reader.int32()
        yield Entry(change, key, b"" if change is Change.DELETE else reader.take(size))
    _expect_end(reader, path)


def _expect_end(reader: JavaReader, path: str) -> None:
    if not reader.at_end:
        raise DamagedFile("there are bytes behind the end mark", path=path)


def write_plain(entries: Iterable[Entry]) -> bytes:
    """The plain framing; it has no merges and no ranges."""
    out = bytearray()
    for entry in entries:
        out += java_int(len(entry.key)) + entry.key
        if entry.change is Change.DELETE:
            out += java_int(-1)
        elif entry.change is Change.PUT:
            out += java_int(len(entry.value)) + entry.value
        else:
            raise ValueError(f"{entry.change.name} cannot be written in this framing")
    return bytes(out) + java_int(-1)


def write_typed(entries: Iterable[Entry]) -> bytes:
    """The typed framing."""
    out = bytearray()
    for entry in entries:
        out += bytes([entry.change.value]) + java_int(len(entry.key)) + entry.key
        size = -1 if entry.change is Change.DELETE else len(entry.value)
        out += java_int(size) + entry.value
    return bytes(out) + bytes([_END])
