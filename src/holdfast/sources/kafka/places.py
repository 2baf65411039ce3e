"""A place in topics at which to start or to end: first, newest, a time, or given offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.protocol.kafka_offsets import TopicPartition

Edge = Literal["earliest", "latest"]
_CODES = {"latest": -1, "earliest": -2}
"""Spark's numbers for them."""


@dataclass(frozen=True, slots=True)
class Place:
    """One of three: an edge, a time in milliseconds since 1970, an offset per partition."""

    edge: Edge | None = None
    time: int | None = None
    offsets: Mapping[TopicPartition, int | Edge] | None = None

    def __str__(self) -> str:
        if self.offsets is not None:
            return ", ".join(f"{place}: {at}" for place, at in sorted(self.offsets.items()))
        return self.edge or f"{self.time} ms"

    def starting_options(self) -> dict[str, str]:
        """To start there. Where a partition has nothing so late, it is read from its end."""
        if self.edge is not None:
            return {"startingOffsets": self.edge}
        if self.time is not None:
            return {
                "startingTimestamp": str(self.time),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        topics: dict[str, dict[str, int]] = {}
        for place, at in sorted((self.offsets or {}).items()):
            number = at if isinstance(at, int) else _CODES[at]
            topics.setdefault(place.topic, {})[str(place.partition)] = number
        return {"startingOffsets": json.dumps(topics, separators=(",", ":"))}


def place_of(given: object) -> Place:
    """What has no problems."""
    match given:
        case "earliest" | "latest":
            return Place(edge=given)
        case int():
            return Place(time=given)
        case datetime():
            return Place(time=round(given.timestamp() * 1000))
    assert isinstance(given, Mapping)
    return Place(
        offsets={
            TopicPartition(topic, partition): at
            for topic, partitions in given.items()
            for partition, at in partitions.items()
        }
    )


def start_problems(given: object, topics: list[object]) -> Iterator[str]:
    """Why nothing can start there."""
    yield from (f"start: {each}" for each in _problems(given, topics, ("earliest", "latest")))


def end_problems(given: object, topics: list[object]) -> Iterator[str]:
    """Why nothing can end there. ``None`` is no end."""
    if given is not None:
        yield from (f"end: {each}" for each in _problems(given, topics, ("latest",)))


def _problems(given: object, topics: list[object], edges: tuple[str, ...]) -> Iterator[str]:
    if isinstance(given, datetime):
        if given.tzinfo is None:
            yield f"{given!r} has no time zone; give one: tzinfo=datetime.UTC"
        elif given.timestamp() < 0:
            yield f"{given.isoformat()} is before 1970"
    elif isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            yield f"{given} milliseconds are before 1970"
    elif isinstance(given, Mapping):
        yield from _offset_problems(given, topics, edges)
    elif given not in edges:
        words = " or ".join(repr(edge) for edge in edges)
        yield (
            f"give {words}, a datetime, milliseconds since 1970 "
            f"or {{topic: {{partition: offset}}}}, not {given!r}"
        )


def _offset_problems(
    given: Mapping[object, object], topics: list[object], edges: tuple[str, ...]
) -> Iterator[str]:
    if not given:
        yield "no topic has an offset"
    if topics and set(given) != set(topics):
        yield f"offsets are for {_listed(given)}, and topics are {_listed(topics)}"
    for topic, partitions in given.items():
        if not isinstance(partitions, Mapping) or not partitions:
            yield f"{topic!r} has no {{partition: offset}}"
            continue
        for partition, at in partitions.items():
            if not _is_count(partition):
                yield f"{partition!r} of {topic} is not the number of a partition"
            if not _is_count(at) and at not in edges:
                words = "".join(f", {edge!r}" for edge in edges)
                yield f"the offset of {topic}-{partition} is {at!r}; give a number from 0{words}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _listed(names: Mapping[object, object] | list[object]) -> str:
    return ", ".join(sorted(str(name) for name in names)) or "none"
