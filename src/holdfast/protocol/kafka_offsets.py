"""Positions in Kafka as Spark writes them: of each topic's partitions, the next offset to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets = Mapping[TopicPartition, int]


def decode_offsets(offset: object) -> dict[TopicPartition, int] | None:
    """From JSON, or from what JSON was; ``None`` if this is no position in Kafka."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None
    if not isinstance(found, dict) or not found:
        return None
    offsets = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, dict):
            return None
        for partition, at in partitions.items():
            if not str(partition).isdigit() or not isinstance(at, int):
                return None
            offsets[TopicPartition(topic, int(partition))] = at
    return offsets


def encode_offsets(offsets: Offsets) -> str:
    """As Spark reads it."""
    topics: dict[str, dict[str, int]] = {}
    for place in sorted(offsets):
        topics.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return json.dumps(topics, separators=(",", ":"))


def held_at(offsets: Offsets, start: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    """``offsets``, but nowhere beyond ``end``, and never before ``start``.

    A partition that ``end`` does not know was made later, and is left out. One that lay beyond its
    end from the start stays where it is: Spark takes a step back for lost rows.
    """
    return {
        place: max(min(at, end[place]), start.get(place, 0))
        for place, at in offsets.items()
        if place in end
    }


def has_reached(offsets: Offsets, end: Offsets) -> bool:
    """Whether everything before ``end`` has been read."""
    return all(place in offsets and offsets[place] >= at for place, at in end.items())
