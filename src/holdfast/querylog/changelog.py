"""RocksDB changelogs: ``<v>.changelog`` (format 1) and ``<v>_<id>.changelog`` (format 2).

Versions 1 and 2 belong to format 1, without and with column families; 3 and 4 are the same two
with a lineage: the versions and ids this one builds upon, back to the last snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.errors import DamagedFile, UnknownFormat
from holdfast.querylog.compression import compress, decompress
from holdfast.querylog.entries import Entry, read_plain, read_typed, write_plain, write_typed
from holdfast.querylog.javadata import JavaReader, java_utf


@dataclass(frozen=True, slots=True, order=True)
class StateVersion:
    """One version of one store in format 2: the number and the id that tells attempts apart."""

    version: int
    unique_id: str


@dataclass(frozen=True, slots=True)
class Changelog:
    """One file: its version, its lineage (empty in format 1), its records."""

    version: int
    lineage: tuple[StateVersion, ...]
    entries: tuple[Entry, ...]


_TYPED_VERSIONS = (2, 4)
_LINEAGE_VERSIONS = (3, 4)


def read_changelog(data: bytes, codec: str, path: str) -> Changelog:
    """The whole file."""
    reader, version, lineage = _open(data, codec, path)
    return Changelog(version, lineage, tuple(_entries(reader, version, path)))


def read_lineage(data: bytes, codec: str, path: str) -> tuple[StateVersion, ...]:
    """Only what the file builds upon."""
    _, version, lineage = _open(data, codec, path)
    if version not in _LINEAGE_VERSIONS:
        raise DamagedFile(
            "changelog has no lineage, though its name says format 2", path=path, version=version
        )
    return lineage


def write_changelog(changelog: Changelog, codec: str) -> bytes:
    """A file that Spark reads."""
    head = b"" if changelog.version == 1 else java_utf(f"v{changelog.version}")
    if changelog.version in _LINEAGE_VERSIONS:
        head += java_utf(_lineage_json(changelog.lineage))
    write = write_typed if changelog.version in _TYPED_VERSIONS else write_plain
    return compress(codec, head + write(changelog.entries))


def _open(data: bytes, codec: str, path: str) -> tuple[JavaReader, int, tuple[StateVersion, ...]]:
    plain = decompress(codec, data, path)
    reader = JavaReader(plain, path)
    # Version 1 has no version mark and begins with a key's length. Spark tells the two apart in
    # the same way: the bytes read as a string that looks like "v2".
    if plain[:3] != b"\0\2v" or not plain[3:4].isdigit():
        return reader, 1, ()
    version = int(reader.utf()[1:])
    if version not in (2, 3, 4):
        raise UnknownFormat(
            f"changelog version {version} is not known",
            hint="Known are 1 to 4 (Spark 4.3). The file was written by another release of Spark.",
            path=path,
        )
    return reader, version, _lineage(reader, path) if version in _LINEAGE_VERSIONS else ()


def _lineage(reader: JavaReader, path: str) -> tuple[StateVersion, ...]:
    try:
        items = json.loads(reader.utf())
        return tuple(
            StateVersion(int(item["version"]), str(item["checkpointUniqueId"])) for item in items
        )
    except (ValueError, KeyError, TypeError) as cause:
        raise DamagedFile("lineage of a changelog is not readable", path=path) from cause


def _lineage_json(lineage: tuple[StateVersion, ...]) -> str:
    items = [{"version": v.version, "checkpointUniqueId": v.unique_id} for v in lineage]
    return json.dumps(items, separators=(",", ":"))


def _entries(reader: JavaReader, version: int, path: str) -> Iterator[Entry]:
    read = read_typed if version in _TYPED_VERSIONS else read_plain
    return read(reader, path)
