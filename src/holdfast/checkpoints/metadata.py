"""``_metadata``: everything that a checkpoint is, in one self-describing JSON file.

Files of state lie beside it (``place`` is relative to the directory of all checkpoints of the
job) or, if they are small, inside it (``inline``).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.errors import DamagedFile, UnknownFormat
from holdfast.querylog.checksums import crc32c

FORMAT = "holdfast-checkpoint"
VERSION = 1
METADATA = "_metadata"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a region's query log or of a segment."""

    path: str
    """Relative to the query log, or to the segment."""
    size: int
    crc32c: str
    state: bool = True
    place: str | None = None
    inline: str | None = None
    """Base64."""

    @property
    def shared(self) -> bool:
        """Whether other checkpoints may use the same file."""
        return self.place is not None and self.place.startswith("shared/")

    def contents(self) -> bytes | None:
        """The bytes, if they are in here."""
        return None if self.inline is None else base64.b64decode(self.inline)


@dataclass(frozen=True, slots=True)
class InputSnapshot:
    """How far a region had read one of its inputs at the cut."""

    uid: str
    kind: str
    """``channel`` or ``source``."""
    position: int | None = None
    """Of a channel: the next segment to read."""
    barrier: int | None = None
    """Of a channel: where the barrier lies."""
    offset: str | None = None
    """Of a source: Spark's offset."""


@dataclass(frozen=True, slots=True)
class RegionSnapshot:
    """A region at its cut."""

    uid: str
    cut: int
    """The last batch that is included; -1 if there was none."""
    output_mode: str
    inputs: tuple[InputSnapshot, ...]
    schema: Mapping[str, Any]
    """Of the rows it puts out, as Spark's JSON."""
    query_id: str | None = None
    backend: str | None = None
    partitions: int | None = None
    watermark_ms: int = 0
    operators: tuple[Mapping[str, Any], ...] = ()
    files: tuple[StoredFile, ...] = ()
    statistics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class SegmentSnapshot:
    """In-flight data: a segment that its reader had not read at the cut."""

    channel: str
    segment: int
    files: tuple[StoredFile, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a sink has pre-committed at a checkpoint."""

    sink: str
    checkpoint: int
    first: int
    """The first segment whose rows are in it."""
    end: int
    """The segment behind the last one."""
    handle: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CheckpointMetadata:
    """A completed checkpoint."""

    job_id: str
    job_name: str
    id: int
    kind: str
    """``checkpoint``; later also ``savepoint``."""
    mode: str
    """``exactly-once`` or ``at-least-once``."""
    unaligned: bool
    full: bool
    triggered: float
    completed: float
    attempt: int
    holdfast: str
    spark: str
    regions: tuple[RegionSnapshot, ...]
    in_flight: tuple[SegmentSnapshot, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    user: Mapping[str, Any] = field(default_factory=dict)
    """What the job's own hooks returned, by their names."""
    statistics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """Every file, of regions and of in-flight data."""
        found = [file for region in self.regions for file in region.files]
        return (*found, *(file for segment in self.in_flight for file in segment.files))

    @property
    def size(self) -> int:
        """What a restore needs, in bytes."""
        return sum(file.size for file in self.files)

    def region(self, uid: str) -> RegionSnapshot | None:
        """The snapshot of one region."""
        return next((r for r in self.regions if r.uid == uid), None)


def encode(metadata: CheckpointMetadata) -> bytes:
    """The file's bytes; small enough to be read by a person too."""
    body = asdict(metadata)
    document = {"format": FORMAT, "version": VERSION, "crc32c": checksum(body), **body}
    return json.dumps(document, indent=1, ensure_ascii=False).encode()


def checksum(body: Mapping[str, Any]) -> str:
    """Of what the file says, not of how it is laid out: a person may reformat it, not alter it."""
    return f"{crc32c(json.dumps(body).encode()):08x}"


def decode(data: bytes, path: str) -> CheckpointMetadata:
    """The inverse of ``encode``."""
    try:
        document = json.loads(data)
    except ValueError as cause:
        raise DamagedFile("checkpoint metadata is truncated or altered", path=path) from cause
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise DamagedFile("file is not the metadata of a checkpoint", path=path)
    if (version := document.pop("version", None)) != VERSION:
        raise UnknownFormat(
            f"checkpoint metadata has version {version}, which is not known",
            hint=f"Known: {VERSION}. Use the release of Holdfast that wrote it.",
            path=path,
        )
    if document.pop("crc32c", None) != checksum(document):
        raise DamagedFile("checkpoint metadata was altered: its checksum does not fit", path=path)
    try:
        return _checkpoint(document)
    except (KeyError, TypeError) as cause:
        raise DamagedFile(f"checkpoint metadata has other fields: {cause}", path=path) from cause


def _checkpoint(document: dict[str, Any]) -> CheckpointMetadata:
    return CheckpointMetadata(
        **{
            **document,
            "regions": tuple(_region(item) for item in document["regions"]),
            "in_flight": tuple(_segment(item) for item in document["in_flight"]),
            "transactions": tuple(Transaction(**item) for item in document["transactions"]),
        }
    )


def _region(item: dict[str, Any]) -> RegionSnapshot:
    return RegionSnapshot(
        **{
            **item,
            "inputs": tuple(InputSnapshot(**i) for i in item["inputs"]),
            "operators": tuple(item["operators"]),
            "files": tuple(StoredFile(**f) for f in item["files"]),
        }
    )


def _segment(item: dict[str, Any]) -> SegmentSnapshot:
    return SegmentSnapshot(**{**item, "files": tuple(StoredFile(**f) for f in item["files"])})
