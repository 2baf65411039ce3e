"""Whether rows fit their topics: what could never be sent must not be promised.

A commit is tried until it succeeds. With a row that the broker will always refuse it would be tried
for ever, and the checkpoint that owns the row could not be used any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OVERHEAD = 100
"""Bytes that a record has besides its contents, and that of the batch around it."""
_HEADER = 10
"""The most bytes that a header has besides key and value: their lengths."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """What a record in a topic must keep to."""

    partitions: int
    most_bytes: int
    needs_key: bool = False
    oldest: int | None = None
    """How many milliseconds a record's time may be behind that of the broker; ``None``: any."""
    newest: int | None = None
    """How many it may be ahead."""
    is_assumed: bool = False
    """This user may not read the topic's settings; those of a topic that has none are assumed."""


@dataclass(frozen=True, slots=True)
class Extremes:
    """Of the records for one topic."""

    topic: str | None
    most_bytes: int
    lowest_partition: int | None = None
    highest_partition: int | None = None
    earliest: int | None = None
    """Milliseconds since 1970."""
    latest: int | None = None
    lacks_key: bool = False
    lacks_header_key: bool = False


def extremes(rows: DataFrame, topic: str | None) -> list[Extremes]:
    """By topic, the outermost values. Executors look at every row; Python sees none."""
    from pyspark.sql import functions as sf

    found = _Columns(rows)
    outermost = [
        sf.max(found.size()),
        sf.min(found.get("partition", "int")),
        sf.max(found.get("partition", "int")),
        sf.min(sf.unix_millis(found.get("timestamp", "timestamp"))),
        sf.max(sf.unix_millis(found.get("timestamp", "timestamp"))),
        sf.max(found.get("key", "binary").isNull()),
        sf.max(found.has_header_without_key()),
    ]
    if topic is None:
        return [Extremes(*row) for row in rows.groupBy("topic").agg(*outermost).collect()]
    (row,) = rows.agg(*outermost).collect()
    return [Extremes(topic, *row)] if row[0] is not None else []


class _Columns:
    """Columns of rows that need not have them."""

    def __init__(self, rows: DataFrame) -> None:
        self._names = rows.columns

    def get(self, name: str, kind: str) -> Column:
        from pyspark.sql import functions as sf

        return sf.col(name) if name in self._names else sf.lit(None).cast(kind)

    def size(self) -> Any:
        from pyspark.sql import functions as sf

        def length(column: Any) -> Any:
            return sf.coalesce(sf.octet_length(column), sf.lit(0))

        size = length(self.get("key", "binary")) + length(self.get("value", "binary"))
        if "headers" not in self._names:
            return size
        add = sf.aggregate(
            "headers",
            sf.lit(0),
            lambda sum, h: sum + length(h["key"]) + length(h["value"]) + sf.lit(_HEADER),
        )
        return size + sf.coalesce(add, sf.lit(0))

    def has_header_without_key(self) -> Any:
        from pyspark.sql import functions as sf

        if "headers" not in self._names:
            return sf.lit(False)
        lacking = sf.exists("headers", lambda h: h.isNull() | h["key"].isNull())
        return sf.coalesce(lacking, sf.lit(False))


def most_bytes(limits: Iterable[TopicLimits]) -> int | None:
    """What all topics take; ``None`` if there is none."""
    return min((each.most_bytes for each in limits), default=None)


def problems(found: Sequence[Extremes], limits: Mapping[str, TopicLimits], now: int) -> list[str]:
    """Why records could not be sent, in sentences; ``now`` is in milliseconds since 1970."""
    return [sentence for each in found for sentence in _problems(each, limits, now)]


def refuse_records(
    found: Sequence[Extremes], limits: Mapping[str, TopicLimits], now: int, sink: str
) -> None:
    """Everything that is wrong, in one error."""
    if sentences := problems(found, limits, now):
        lines = "".join(f"\n  - {sentence}" for sentence in sentences)
        raise UsageError(
            f"Kafka would not take these rows:{lines}",
            hint="Change the topic; or change the rows in the region, and start from the newest "
            "checkpoint, which does not have them yet: holdfast run --from PATH.",
            sink=sink,
        )


def _problems(each: Extremes, limits: Mapping[str, TopicLimits], now: int) -> Iterator[str]:
    known = limits.get(each.topic) if each.topic is not None else None
    if each.topic is None:
        yield "rows have no value in column 'topic'"
    elif known is None:
        yield f"there is no topic {each.topic!r}"
    else:
        yield from _misfits(each, known)
        yield from _times(each, known, now)
    if each.earliest is not None and each.earliest <= 0:
        # To the client the first millisecond means "now".
        yield "rows have a timestamp before 1970, or in its first millisecond"
    if each.lacks_header_key:
        yield "rows have headers without a key"


def _misfits(each: Extremes, known: TopicLimits) -> Iterator[str]:
    low, high = each.lowest_partition, each.highest_partition
    if low is not None and high is not None and (low < 0 or high >= known.partitions):
        wrong = low if low < 0 else high
        yield f"topic {each.topic} has partitions 0 to {known.partitions - 1}, rows name {wrong}"
    if each.most_bytes + _OVERHEAD > known.most_bytes:
        yield (
            f"a row has {each.most_bytes} bytes, topic {each.topic} takes records up to "
            f"{known.most_bytes} bytes (max.message.bytes{_assumed(known)})"
        )
    if known.needs_key and each.lacks_key:
        yield f"topic {each.topic} is compacted, and rows have no key"


def _times(each: Extremes, known: TopicLimits, now: int) -> Iterator[str]:
    if each.latest is not None and known.newest is not None and each.latest > now + known.newest:
        yield (
            f"a row has a timestamp {each.latest - now} ms ahead, topic {each.topic} takes up to "
            f"{known.newest} ms (message.timestamp.after.max.ms{_assumed(known)})"
        )
    if each.earliest is None or known.oldest is None:
        return
    # Rows become older until they are sent, and a broker may be away for long.
    oldest = known.oldest // 2
    if each.earliest < now - oldest:
        yield (
            f"a row has a timestamp of {now - each.earliest} ms ago, topic {each.topic} takes up "
            f"to {known.oldest} ms (message.timestamp.before.max.ms), half of which is kept for "
            "the time until they are sent"
        )


def _assumed(known: TopicLimits) -> str:
    if not known.is_assumed:
        return ""
    return ", assumed: this user lacks the right DESCRIBE_CONFIGS on the topic"
