"""RocksDB table files (SST), block-based, format 2 to 5: checked block by block, looked up by key.

Layout, from the end: a footer points at the index; the index lists the data blocks with the last
key of each; every block is followed by one byte (how it is compressed) and a checksum. Spark
writes format 5 with a plain binary-search index.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import google_crc32c
import pyarrow as pa
import xxhash

from holdfast.errors import DamagedFile, UnknownFormat

_MAGIC = 0x88E241B785F4CFF7
_FOOTER_BYTES = 53
_TRAILER_BYTES = 5
_LAST_BYTE_PRIME = 0x6B9083D9
_CODECS = {1: "snappy", 2: "gzip", 4: "lz4_raw", 5: "lz4_raw", 7: "zstd"}
_RANGE_DELETES = b"rocksdb.range_del"
_PROPERTIES = b"rocksdb.properties"
_KEY_IS_USER_KEY = b"rocksdb.index.key.is.user.key"
_VALUE_IS_DELTA = b"rocksdb.index.value.is.delta.encoded"
_REMOVED = {0, 7}  # entry types: deletion, single deletion


@dataclass(frozen=True, slots=True)
class _Handle:
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Found:
    """The newest entry of a key in one table."""

    sequence: int
    exists: bool


class Table:
    """One table file."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._path = path
        try:
            self._checksum_type, meta_handle, index_handle = self._footer()
            self._meta = {
                key: _read_handle(value, 0)[0] for key, value in self._entries(meta_handle)
            }
            properties = dict(self._entries(self._meta[_PROPERTIES]))
            self._user_keys = _number(properties.get(_KEY_IS_USER_KEY))
            self._index_handle = index_handle
            self._index = list(self._read_index(bool(_number(properties.get(_VALUE_IS_DELTA)))))
        except (struct.error, IndexError, KeyError, ValueError) as cause:
            raise DamagedFile("table file is not readable", path=path) from cause
        self._last_keys = [key for key, _ in self._index]
        self._block = lru_cache(maxsize=64)(self._user_entries)

    @property
    def has_range_deletes(self) -> bool:
        """Whether keys may be gone without an entry of their own."""
        return _RANGE_DELETES in self._meta

    def check(self) -> None:
        """Raise ``DamagedFile`` unless every block has its checksum."""
        for handle in [*self._meta.values(), self._index_handle]:
            self._contents(handle)
        for _, handle in self._index:
            self._check_block(handle)

    def find(self, key: bytes) -> Found | None:
        """The newest entry for ``key``, or ``None`` if the table does not know it."""
        newest: Found | None = None
        for at in range(bisect.bisect_left(self._last_keys, key), len(self._index)):
            for found_key, sequence, kind in self._block(at):
                if found_key == key and (newest is None or sequence > newest.sequence):
                    newest = Found(sequence, kind not in _REMOVED)
            # Entries of one key may run on into the next block, never beyond a greater last key.
            if self._last_keys[at] > key:
                break
        return newest

    def keys(self) -> Iterator[bytes]:
        """Every user key, with repetitions, in order."""
        for at in range(len(self._index)):
            yield from (key for key, _, _ in self._user_entries(at))

    def _footer(self) -> tuple[int, _Handle, _Handle]:
        footer = self._data[-_FOOTER_BYTES:]
        version, magic = struct.unpack("<IQ", footer[-12:])
        if magic != _MAGIC:
            raise DamagedFile("table file is truncated or not one", path=self._path)
        if not 2 <= version <= 5:
            raise UnknownFormat(
                f"table file has RocksDB format {version}",
                hint="Known: 2 to 5. Spark writes 5 unless rocksdb.formatVersion is set.",
                path=self._path,
            )
        meta, at = _read_handle(footer, 1)
        index, _ = _read_handle(footer, at)
        return footer[0], meta, index

    def _read_index(self, delta_encoded: bool) -> Iterator[tuple[bytes, _Handle]]:
        previous: _Handle | None = None
        block = self._contents(self._index_handle)
        for key, value, shared in _walk(block, values_have_length=not delta_encoded):
            if delta_encoded and shared and previous is not None:
                # Only the size is stored, as a difference; blocks follow each other.
                difference, _ = _varint(value, 0)
                size = previous.size + ((difference >> 1) ^ -(difference & 1))
                handle = _Handle(previous.offset + previous.size + _TRAILER_BYTES, size)
            else:
                handle, _ = _read_handle(value, 0)
            previous = handle
            yield (key if self._user_keys else key[:-8]), handle

    def _user_entries(self, at: int) -> tuple[tuple[bytes, int, int], ...]:
        entries = []
        for key, _ in self._entries(self._index[at][1]):
            (tag,) = struct.unpack("<Q", key[-8:])
            entries.append((key[:-8], tag >> 8, tag & 0xFF))
        return tuple(entries)

    def _entries(self, handle: _Handle) -> Iterator[tuple[bytes, bytes]]:
        for key, value, _ in _walk(self._contents(handle), values_have_length=True):
            yield key, value

    def _check_block(self, handle: _Handle) -> tuple[bytes, int]:
        end = handle.offset + handle.size
        body = self._data[handle.offset : end]
        trailer = self._data[end : end + _TRAILER_BYTES]
        if len(body) != handle.size or len(trailer) != _TRAILER_BYTES:
            raise DamagedFile("table file is truncated", path=self._path, at_byte=handle.offset)
        kind, stored = struct.unpack("<BI", trailer)
        if _checksum(self._checksum_type, body, kind, self._path) != stored:
            raise DamagedFile(
                "a block of the table file was altered", path=self._path, at_byte=handle.offset
            )
        return body, kind

    def _contents(self, handle: _Handle) -> bytes:
        body, kind = self._check_block(handle)
        if kind == 0:
            return body
        codec = _CODECS.get(kind)
        if codec is None:
            raise UnknownFormat(
                f"table file is compressed in a way ({kind}) that is not known", path=self._path
            )
        if codec == "snappy":
            size, at = _varint(body, 0)[0], 0  # snappy carries its own length
        else:
            size, at = _varint(body, 0)
        return bytes(pa.decompress(body[at:], decompressed_size=size, codec=codec, asbytes=True))


def _checksum(kind: int, body: bytes, last: int, path: str) -> int:
    if kind == 4:
        return (int(xxhash.xxh3_64_intdigest(body)) & 0xFFFFFFFF) ^ (
            last * _LAST_BYTE_PRIME & 0xFFFFFFFF
        )
    if kind == 1:
        crc = int(google_crc32c.extend(google_crc32c.value(body), bytes([last])))
        return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    if kind == 2:
        return int(xxhash.xxh32_intdigest(body + bytes([last])))
    if kind == 3:
        return int(xxhash.xxh64_intdigest(body + bytes([last]))) & 0xFFFFFFFF
    raise UnknownFormat(f"table file has checksums of a kind ({kind}) that is not known", path=path)


def _walk(block: bytes, *, values_have_length: bool) -> Iterator[tuple[bytes, bytes, int]]:
    """Key, value and how many bytes of the key were shared with the one before it."""
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * ((restarts & 0x7FFFFFFF) + 1)
    at, key = 0, b""
    while at < end:
        shared, at = _varint(block, at)
        fresh, at = _varint(block, at)
        if values_have_length:
            length, at = _varint(block, at)
        key = key[:shared] + block[at : at + fresh]
        at += fresh
        if values_have_length:
            value, at = block[at : at + length], at + length
        elif shared:
            start = at
            _, at = _varint(block, at)
            value = block[start:at]
        else:
            start = at
            _, at = _read_handle(block, at)
            value = block[start:at]
        yield key, value, shared


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _read_handle(data: bytes, at: int) -> tuple[_Handle, int]:
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return _Handle(offset, size), at


def _number(value: bytes | None) -> int:
    return _varint(value, 0)[0] if value else 0
