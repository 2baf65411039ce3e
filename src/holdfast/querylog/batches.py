"""The three logs of batches: ``metadata``, ``offsets/<batch>``, ``commits/<batch>``.

What a decoder does not need it keeps as it was, so that a file that is read and written again
loses nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import DamagedFile
from holdfast.querylog.textfile import object_line, parse_object, split_version, to_json

METADATA = "metadata"
OFFSETS_VERSIONS = (1, 2)
COMMITS_VERSIONS = (1, 2, 3)
PARTITIONS_SETTING = "spark.sql.shuffle.partitions"
PROVIDER_SETTING = "spark.sql.streaming.stateStore.providerClass"
CODEC_SETTING = "spark.sql.streaming.stateStore.compression.codec"
_NO_OFFSET = "-"


def offsets_path(batch: int) -> str:
    """Written before the batch runs."""
    return f"offsets/{batch}"


def commit_path(batch: int) -> str:
    """Written after the sink took the batch."""
    return f"commits/{batch}"


def decode_metadata(data: bytes, path: str) -> str:
    """The query's id."""
    try:
        text = data.decode("utf-8")
    except UnicodeError as cause:
        raise DamagedFile("file is not text", path=path) from cause
    query_id = parse_object(text, path).get("id")
    if not isinstance(query_id, str):
        raise DamagedFile("file does not name a query id", path=path)
    return query_id


def encode_metadata(query_id: str) -> bytes:
    """A ``metadata`` file."""
    return to_json({"id": query_id}).encode()


def new_query_id() -> str:
    """An id no query has had."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Offsets:
    """``offsets/<batch>``: how far each source will have been read when the batch is done."""

    version: int
    metadata: Mapping[str, Any]
    sources: Mapping[str, str | None]
    """Source id (its position, or its name) to offset; ``None`` where nothing was read yet."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings that the query is bound to."""
        conf = self.metadata.get("conf", {})
        return conf if isinstance(conf, dict) else {}

    @property
    def watermark_ms(self) -> int:
        """The watermark that the batch ran with."""
        return int(self.metadata.get("batchWatermarkMs", 0))


def decode_offsets(data: bytes, path: str) -> Offsets:
    """Either version."""
    version, lines = split_version(data, path, OFFSETS_VERSIONS)
    if len(lines) < 2:
        raise DamagedFile("file is truncated: it names no source", path=path)
    metadata = object_line(lines, path) if lines[0].strip() else {}
    rest = lines[1:]
    pairs = (
        [(str(at), line) for at, line in enumerate(rest)]
        if version == 1
        else [_named(line, path) for line in rest]
    )
    for _, offset in pairs:
        _check_offset(offset, path)
    return Offsets(version, metadata, {k: None if v == _NO_OFFSET else v for k, v in pairs})


def _check_offset(offset: str, path: str) -> None:
    # What an offset looks like is the connector's choice, but half a JSON document is nobody's.
    if not offset or offset[0] in "{[":
        try:
            json.loads(offset)
        except ValueError as cause:
            raise DamagedFile("an offset is truncated or not JSON", path=path) from cause


def _named(line: str, path: str) -> tuple[str, str]:
    name, colon, offset = line.partition(":")
    if not colon or not name:
        raise DamagedFile("offset line does not name its source", path=path, line=line)
    return name, offset


def encode_offsets(offsets: Offsets) -> bytes:
    """The inverse of ``decode_offsets``."""
    lines = [f"v{offsets.version}", to_json(offsets.metadata)]
    for name, offset in offsets.sources.items():
        text = _NO_OFFSET if offset is None else offset
        lines.append(text if offsets.version == 1 else f"{name}:{text}")
    return "\n".join(lines).encode()


@dataclass(frozen=True, slots=True)
class Commit:
    """``commits/<batch>``: the batch is done, and the state versions that belong to it."""

    version: int
    metadata: Mapping[str, Any]

    @property
    def next_watermark_ms(self) -> int:
        """The watermark that the next batch will run with."""
        return int(self.metadata.get("nextBatchWatermarkMs", 0))

    def state_ids(self, operator: int) -> tuple[tuple[str, ...], ...] | None:
        """Ids per partition, per store; ``None`` in format 1, which has none."""
        ids = (self.metadata.get("stateUniqueIds") or {}).get(str(operator))
        return None if ids is None else tuple(tuple(stores) for stores in ids)

    @property
    def state_format(self) -> int:
        """1 or 2: whether state versions carry ids."""
        return 2 if self.metadata.get("stateUniqueIds") else 1


def decode_commit(data: bytes, path: str) -> Commit:
    """Any of the three versions."""
    version, lines = split_version(data, path, COMMITS_VERSIONS)
    return Commit(version, object_line(lines, path))


def encode_commit(commit: Commit) -> bytes:
    """The inverse of ``decode_commit``."""
    return f"v{commit.version}\n{to_json(commit.metadata)}".encode()
