"""Spark's compression codecs, as state files use them (``spark.io.compression.codec`` names)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import xxhash

from holdfast.errors import DamagedFile, UnknownFormat

_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiii")
_LZ4_SEED = 0x9747B28C
_LZ4_RAW, _LZ4_COMPRESSED = 0x10, 0x20
_LZ4_BLOCK_BYTES = 32 * 1024
_LZ4_MOST_BYTES = 1 << 25
_LZ4_LEVEL = 5  # log2 of the block size, less 10

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_VERSIONS = struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK_BYTES = 32 * 1024
_SNAPPY_MOST_BYTES = 1 << 29

CODECS = ("lz4", "zstd", "snappy")


def decompress(codec: str, data: bytes, path: str) -> bytes:
    """The whole file's contents; ``DamagedFile`` if its checksums or framing are wrong."""
    reader = {"lz4": _lz4_blocks, "snappy": _snappy_blocks, "zstd": _zstd_blocks}.get(codec)
    if reader is None:
        raise _unknown(codec, path)
    try:
        return b"".join(reader(data, path))
    except (OSError, ValueError, struct.error) as cause:
        raise DamagedFile(f"file is not valid {codec} data: {cause}", path=path) from cause


def compress(codec: str, data: bytes) -> bytes:
    """A file that Spark's codec of that name reads back to ``data``."""
    if codec == "lz4":
        return _lz4_stream(data)
    if codec == "snappy":
        return _snappy_stream(data)
    if codec == "zstd":
        return bytes(pa.compress(data, codec="zstd", asbytes=True))
    raise _unknown(codec, "")


def _unknown(codec: str, path: str) -> UnknownFormat:
    return UnknownFormat(
        f"state files are compressed with {codec!r}, which Holdfast does not read",
        hint=f"Codecs that it reads: {', '.join(CODECS)}.",
        path=path,
    )


def _lz4_blocks(data: bytes, path: str) -> Iterator[bytes]:
    at, ended = 0, False
    while at < len(data):
        magic, token, packed, size, checksum = _LZ4_HEADER.unpack_from(data, at)
        at += _LZ4_HEADER.size
        if magic != _LZ4_MAGIC:
            raise ValueError(f"no LZ4 block at byte {at - _LZ4_HEADER.size}")
        if not 0 <= size <= _LZ4_MOST_BYTES or not 0 <= packed <= len(data) - at:
            raise ValueError(f"impossible block size at byte {at}")
        ended = size == 0
        if ended:
            continue  # streams may be concatenated
        body = data[at : at + packed]
        at += packed
        block = body if token & 0xF0 == _LZ4_RAW else _lz4_block(body, size)
        if len(block) != size or _lz4_checksum(block) != checksum:
            raise DamagedFile("checksum of an LZ4 block is wrong", path=path, at_byte=at - packed)
        yield block
    if not ended:
        raise ValueError("the end mark is missing")


def _lz4_block(body: bytes, size: int) -> bytes:
    return bytes(pa.decompress(body, decompressed_size=size, codec="lz4_raw", asbytes=True))


def _lz4_checksum(block: bytes) -> int:
    return int(xxhash.xxh32_intdigest(block, _LZ4_SEED)) & 0x0FFFFFFF


def _lz4_stream(data: bytes) -> bytes:
    out = bytearray()
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        block = data[at : at + _LZ4_BLOCK_BYTES]
        packed = bytes(pa.compress(block, codec="lz4_raw", asbytes=True))
        method, body = (_LZ4_COMPRESSED, packed) if len(packed) < len(block) else (_LZ4_RAW, block)
        out += _lz4_head(method, len(body), len(block), _lz4_checksum(block)) + body
    return bytes(out) + _lz4_head(_LZ4_RAW, 0, 0, 0)


def _lz4_head(method: int, packed: int, size: int, checksum: int) -> bytes:
    return _LZ4_HEADER.pack(_LZ4_MAGIC, method | _LZ4_LEVEL, packed, size, checksum)


def _snappy_blocks(data: bytes, path: str) -> Iterator[bytes]:
    if data[:8] != _SNAPPY_MAGIC:
        raise DamagedFile("file does not begin as a snappy stream", path=path)
    at = 16
    while at < len(data):
        if data[at : at + 8] == _SNAPPY_MAGIC:
            at += 16  # streams may be concatenated
            continue
        (packed,) = struct.unpack_from(">i", data, at)
        body = data[at + 4 : at + 4 + packed]
        if packed < 0 or len(body) != packed:
            raise ValueError("the last block is cut off")
        yield bytes(
            pa.decompress(body, decompressed_size=_snappy_size(body), codec="snappy", asbytes=True)
        )
        at += 4 + packed


def _snappy_size(body: bytes) -> int:
    size = shift = 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80 and size <= _SNAPPY_MOST_BYTES:
            return size
        shift += 7
    raise ValueError("a block has no length, or an impossible one")


def _snappy_stream(data: bytes) -> bytes:
    out = bytearray(_SNAPPY_MAGIC + _SNAPPY_VERSIONS)
    for at in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        body = pa.compress(data[at : at + _SNAPPY_BLOCK_BYTES], codec="snappy", asbytes=True)
        out += struct.pack(">i", len(body)) + body
    return bytes(out)


def _zstd_blocks(data: bytes, path: str) -> Iterator[bytes]:
    if not data:
        raise DamagedFile("file is empty", path=path)
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while chunk := stream.read(1 << 20):
            yield chunk
