"""Bytes as Java's DataInput and DataOutput lay them out."""

from __future__ import annotations

import struct

from holdfast.errors import DamagedFile

_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LENGTH = struct.Struct(">H")
MAX_UTF_BYTES = 65535


class JavaReader:
    """Reads one file front to back; running past the end means the file is truncated."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._at = 0
        self._path = path

    @property
    def at_end(self) -> bool:
        """Whether every byte has been read."""
        return self._at == len(self._data)

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise DamagedFile(
                "file is truncated or not what its name says",
                path=self._path,
                at_byte=self._at,
                needs=count,
                has=len(self._data) - self._at,
            )
        chunk = self._data[self._at : end]
        self._at = end
        return chunk

    def byte(self) -> int:
        """One unsigned byte."""
        return self.take(1)[0]

    def int32(self) -> int:
        """A signed 32-bit number."""
        value: int = _INT.unpack(self.take(4))[0]
        return value

    def int16(self) -> int:
        """A signed 16-bit number."""
        value: int = _SHORT.unpack(self.take(2))[0]
        return value

    def utf(self) -> str:
        """A string as ``writeUTF`` wrote it."""
        raw = self.take(_LENGTH.unpack(self.take(2))[0])
        try:
            return decode_modified_utf8(raw)
        except UnicodeError as cause:
            raise DamagedFile("file holds a string that is not UTF-8", path=self._path) from cause


def java_int(value: int) -> bytes:
    """A signed 32-bit number."""
    return _INT.pack(value)


def java_short(value: int) -> bytes:
    """A signed 16-bit number."""
    return _SHORT.pack(value)


def java_utf(text: str) -> bytes:
    """A string as ``writeUTF`` writes it; at most 65535 bytes, as in Java."""
    raw = encode_modified_utf8(text)
    if len(raw) > MAX_UTF_BYTES:
        raise ValueError(f"string of {len(raw)} bytes does not fit into one Java UTF record")
    return _LENGTH.pack(len(raw)) + raw


# Java's strings are UTF-16: a character beyond the first 65536 is two surrogates of three bytes
# each, and NUL is two bytes, so that no zero byte appears.
def encode_modified_utf8(text: str) -> bytes:
    """Java's own kind of UTF-8."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(_LENGTH.unpack_from(units, at)[0]) for at in range(0, len(units), 2))
    return halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def decode_modified_utf8(raw: bytes) -> str:
    """The inverse of ``encode_modified_utf8``."""
    halves = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
