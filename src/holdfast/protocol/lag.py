"""How much a query has not read yet, by what Spark reports of its sources."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.protocol.kafka_offsets import decode_offsets


@dataclass(frozen=True, slots=True, order=True)
class PartitionLag:
    """One partition of a topic; ``read`` and ``newest`` are the offsets behind the last record."""

    topic: str
    partition: int
    read: int
    newest: int
    behind: int


def source_lag(report: Mapping[str, Any]) -> int:
    """How far a source is ahead of the query, if its offsets are made of numbers."""
    if partitions := partition_lags(report):
        return sum(each.behind for each in partitions)
    end, latest = (_parsed(report.get(name)) for name in ("endOffset", "latestOffset"))
    if isinstance(end, dict) and "channel" in end:
        return 0
    return max(0, _distance(end, latest))


def partition_lags(report: Mapping[str, Any]) -> tuple[PartitionLag, ...]:
    """Of a Kafka source: each of its partitions. A new one has been read up to nothing."""
    read = decode_offsets(report.get("endOffset"))
    newest = decode_offsets(report.get("latestOffset"))
    if read is None or newest is None:
        return ()
    return tuple(
        PartitionLag(*place, read.get(place, 0), at, max(0, at - read.get(place, 0)))
        for place, at in sorted(newest.items())
    )


def furthest_behind(
    partitions: Iterable[PartitionLag], most: int
) -> tuple[list[PartitionLag], int]:
    """The worst few, and how many others are behind too."""
    behind = sorted((p for p in partitions if p.behind), key=lambda p: (-p.behind, p))
    return behind[:most], len(behind[most:])


def _parsed(offset: object) -> object:
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None


def _distance(start: object, end: object) -> int:
    if isinstance(start, dict) and isinstance(end, dict):
        return sum(_distance(start[key], end[key]) for key in start.keys() & end.keys())
    numbers = isinstance(start, int) and isinstance(end, int)
    return end - start if numbers else 0  # type: ignore[operator]
