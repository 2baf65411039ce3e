"""RocksDB snapshots: ``<v>[_<id>].zip`` with RocksDB's small files and a list of the large ones.

The large ones, table files and logs, are immutable and shared between snapshots. They lie beside
the zip under names of their own, in ``SSTs/`` and ``logs/``.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.errors import DamagedFile
from holdfast.querylog.textfile import object_line, split_version, to_json

_METADATA = "metadata"
_ZIP_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,  # no such member
    ValueError,  # names that are not text, offsets that are not there
    RuntimeError,  # marked as encrypted, or compressed in an unheard-of way
    OSError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A table file or log: its path below the store's directory, and the size it must have."""

    path: str
    size: int

    @property
    def is_table(self) -> bool:
        """Whether it is a table file (SST)."""
        return self.path.endswith(".sst")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The zip's metadata."""

    metadata: Mapping[str, Any]

    @property
    def shared_files(self) -> tuple[SharedFile, ...]:
        """What the snapshot needs beside the zip."""
        tables = self.metadata.get("sstFiles") or ()
        logs = self.metadata.get("logFiles") or ()
        return tuple(
            SharedFile(f"SSTs/{f['dfsSstFileName']}", int(f["sizeBytes"])) for f in tables
        ) + tuple(SharedFile(f"logs/{f['dfsLogFileName']}", int(f["sizeBytes"])) for f in logs)

    @property
    def keys(self) -> int | None:
        """How many keys it holds, internal ones left out; ``None`` if Spark did not count."""
        count = int(self.metadata.get("numKeys", -1))
        return count if count >= 0 else None

    @property
    def families(self) -> Mapping[str, int]:
        """Column families by name; their number is the first two bytes of every key."""
        mapping: Mapping[str, int] = self.metadata.get("columnFamilyMapping") or {}
        return mapping

    def is_internal(self, family: str) -> bool:
        """Whether Spark keeps the family for its own use and leaves it out of the count."""
        kinds = self.metadata.get("columnFamilyTypeMap") or {}
        return bool(kinds.get(family, family.startswith("$")))


def decode_snapshot(data: bytes, path: str) -> Snapshot:
    """Only the metadata; ``check_snapshot`` reads the rest."""
    with _readable(data, path) as archive:
        text = archive.read(_METADATA)
    _, lines = split_version(text, path, (1,))
    snapshot = Snapshot(object_line(lines, path))
    try:
        _ = snapshot.shared_files, snapshot.keys
    except (KeyError, TypeError, ValueError) as cause:
        raise DamagedFile("metadata of a snapshot is not readable", path=path) from cause
    return snapshot


def check_snapshot(data: bytes, path: str) -> None:
    """Raise ``DamagedFile`` unless every member of the zip has its checksum."""
    with _readable(data, path) as archive:
        bad = archive.testzip()
    if bad is not None:
        raise DamagedFile("a file inside the snapshot was altered", path=path, member=bad)


def encode_snapshot(snapshot: Snapshot, members: Mapping[str, bytes]) -> bytes:
    """A zip with RocksDB's small files and this metadata."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(_METADATA, f"v1\n{to_json(snapshot.metadata)}")
    return out.getvalue()


def read_members(data: bytes, path: str) -> dict[str, bytes]:
    """RocksDB's small files inside the zip."""
    with _readable(data, path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != _METADATA}


@contextmanager
def _readable(data: bytes, path: str) -> Iterator[zipfile.ZipFile]:
    """Whatever a damaged zip makes Python's reader raise becomes ``DamagedFile``."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive
    except _ZIP_DAMAGE as cause:
        raise DamagedFile(
            f"snapshot is truncated, altered or not a zip file: {cause}", path=path
        ) from cause
