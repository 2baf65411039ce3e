"""A stream over bytes that arrive in pieces."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO


def stream_of(chunks: Iterator[bytes], close: Callable[[], None] = lambda: None) -> BinaryIO:
    """A buffered, read-only stream. ``close`` is called once, when the stream is closed."""
    return io.BufferedReader(_Chunks(chunks, close), 1 << 16)


class _Chunks(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes], close: Callable[[], None]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")
        self._on_close = close

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._on_close()
        super().close()
