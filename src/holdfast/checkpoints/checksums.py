"""Size and checksum of a file, read piece by piece: it may not fit into memory."""

from __future__ import annotations

import google_crc32c

from holdfast.storage import Storage

_CHUNK = 1 << 20


def size_and_checksum(files: Storage, path: str) -> tuple[int, str]:
    """How many bytes the file has, and their CRC-32C as ``_metadata`` writes it."""
    size, found = 0, 0
    with files.open(path) as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            found = google_crc32c.extend(found, chunk)
    return size, f"{found:08x}"
