"""What a query notes beside its own log about the topics it reads: their ids, and where to end.

The notes lie in Spark's directory for the source, ``sources/<n>/``, which is part of every
checkpoint of the query. They are never changed: who knows more writes the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.errors import DamagedFile, UnknownFormat
from holdfast.protocol.kafka_offsets import Offsets, decode_offsets, encode_offsets
from holdfast.storage import Storage

_VERSION = 1
_NAME = re.compile(r"sources/(\d+)/holdfast-kafka-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Notes:
    """``source`` is its uid in the job. Topics have the ids that Kafka gives each only once."""

    source: str
    topics: Mapping[str, str] = field(default_factory=dict)
    asked: str | None = None
    """The end as the job gives it."""
    end: Offsets | None = None
    """Where that was when the query began."""


@dataclass(frozen=True, slots=True)
class Found:
    """Notes, which they are, and as which of the query's sources Spark knows this one."""

    notes: Notes
    number: int
    position: int


def read_notes(log: Storage, source: str) -> list[Found]:
    """All that a query has noted of one of its sources, the newest last.

    A query that uses a frame twice has two sources of it, and notes for both.
    """
    found = []
    for info in log.list("sources"):
        if match := _NAME.fullmatch(info.path):
            notes = decode_notes(log.read(info.path), log.locate(info.path))
            found.append(Found(notes, int(match[2]), int(match[1])))
    mine = [each for each in found if each.notes.source == source]
    return sorted(mine, key=lambda each: each.number)


def write_notes(log: Storage, found: Found) -> None:
    """Note it, durably."""
    name = f"sources/{found.position}/holdfast-kafka-{found.number}.json"
    log.publish(name, encode_notes(found.notes))


def encode_notes(notes: Notes) -> bytes:
    """As JSON, with a version."""
    item = {
        "version": _VERSION,
        "source": notes.source,
        "topics": dict(notes.topics),
        "asked": notes.asked,
        "end": None if notes.end is None else json.loads(encode_offsets(notes.end)),
    }
    return json.dumps(item, indent=1).encode()


def decode_notes(data: bytes, path: str) -> Notes:
    """The inverse of ``encode_notes``."""
    try:
        item = json.loads(data)
        version, end = item["version"], item["end"]
        notes = Notes(str(item["source"]), dict(item["topics"]), item["asked"])
    except (ValueError, TypeError, KeyError) as cause:
        raise DamagedFile("notes on a Kafka source cannot be read", path=path) from cause
    if version != _VERSION:
        raise UnknownFormat(f"notes on a Kafka source have version {version}", path=path)
    return replace(notes, end=None if end is None else decode_offsets(end))
