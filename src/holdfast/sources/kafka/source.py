"""A Kafka source: as it is declared, and as one query reads it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.errors import AlreadyPublished, HoldfastError
from holdfast.protocol.kafka_offsets import (
    Offsets,
    decode_offsets,
    encode_offsets,
    has_reached,
    held_at,
)
from holdfast.protocol.kafka_topics import lost_topics
from holdfast.sources.kafka.looking import Look, look_at
from holdfast.sources.kafka.notes import Found, Notes, read_notes, write_notes
from holdfast.sources.kafka.options import Subscription, subscription
from holdfast.spark.connectors import KAFKA
from holdfast.storage import open_storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark.kafka_streams import Hold

Where = Mapping[str, Mapping[int, int | str]]
_log = logging.getLogger(__name__)


class KafkaDataLost(HoldfastError):
    """Rows that were to be read are not in Kafka any more. No checkpoint has them."""

    code = "KAFKA_DATA_LOST"


def kafka(
    servers: str | Iterable[str],
    topics: str | Iterable[str] | None = None,
    *,
    pattern: str | None = None,
    start: str | datetime | int | Where = "earliest",
    end: str | datetime | int | Where | None = None,
    read_committed: bool = True,
    max_per_batch: int | None = None,
    options: Mapping[str, object] | None = None,
) -> KafkaSource:
    """Topics of Kafka, read by Spark's own connector.

    ``topics`` are names, ``pattern`` is a regular expression (Java's) for them. ``start`` counts
    for a query that begins: ``"earliest"``, ``"latest"``, a time (a datetime with a zone, or
    milliseconds since 1970) or ``{topic: {partition: offset}}``; one that goes on does so where it
    was. With ``end`` (the same, without ``"earliest"``) the source is bounded: each partition is
    read up to that offset and not further, whatever comes in later; ``"latest"`` and times are
    looked up when the query first begins, and hold from then on. ``max_per_batch`` is the most
    records that a batch reads. ``options`` are those of Spark's Kafka source, and with ``kafka.``
    in front those of Kafka's Java clients.
    """
    wanted = subscription(
        servers, topics, pattern, start, end, read_committed, max_per_batch, options or {}
    )
    return KafkaSource(wanted)


class KafkaSource:
    """A source of a job; call it to get a streaming frame."""

    connector = KAFKA

    def __init__(self, wanted: Subscription) -> None:
        self._wanted = wanted

    def __repr__(self) -> str:
        what = self._wanted.pattern or ", ".join(self._wanted.topics)
        return f"kafka({self._wanted.servers!r}, {what!r})"

    @property
    def bounded(self) -> bool | None:
        """Whether it has an end of its own; ``None``: only Spark's trigger can end it."""
        return True if self._wanted.end is not None else None

    def would_read(self, servers: str, topic: str) -> bool:
        """Whether its pattern makes it read that topic, as far as Python can tell of Java's."""
        pattern = self._wanted.pattern
        if pattern is None or not _hosts(servers) & _hosts(self._wanted.servers):
            return False
        try:
            return re.fullmatch(pattern, topic) is not None
        except re.error:
            return False

    def __call__(self, spark: SparkSession) -> DataFrame:
        """A streaming frame for any query."""
        return KafkaReading(self._wanted, "kafka", None)(spark)

    def for_query(self, uid: str, location: str) -> KafkaReading:
        """The source as the query with that log reads it."""
        return KafkaReading(self._wanted, uid, location)


@dataclass(frozen=True, slots=True)
class _Log:
    """The query log that a stream belongs to, and as which of its sources."""

    location: str
    position: int

    @classmethod
    def of(cls, folder: str) -> _Log:
        location, _, position = folder.rstrip("/").rpartition("/sources/")
        return cls(location, int(position))


class KafkaReading:
    """One query's reading of the source. Opening it looks whether Kafka still has what it knew."""

    def __init__(self, wanted: Subscription, uid: str, location: str | None) -> None:
        self._wanted = wanted
        self._uid = uid
        self._location = location
        self._noted = self._read(location) if location is not None else []
        self._look = Look({})
        self._spark: SparkSession | None = None

    @property
    def bounded(self) -> bool:
        """Whether it has an end."""
        return self._wanted.end is not None

    def __call__(self, spark: SparkSession) -> DataFrame:
        """The streaming frame; ``KafkaDataLost`` if topics are gone or were replaced."""
        from holdfast.spark.kafka_streams import kafka_stream

        self._spark = spark
        known = self._known().topics
        self._look = look_at(spark, self._wanted, known, self._known_end() is not None)
        self._judged(self._look)
        return kafka_stream(spark, self._wanted.spark_options(), self._begin)

    def check(self) -> None:
        """``KafkaDataLost`` if a topic was replaced while the query runs."""
        if self._spark is None or not self._noted or not self._wanted.fails_on_data_loss:
            return
        known = self._known().topics
        self.note(look_at(self._spark, self._wanted, known, end_is_known=True))

    def note(self, look: Look) -> None:
        """Note topics that have come by the pattern: else nobody could tell if they are replaced.

        A source with an end does not read them.
        """
        if self._location is None or self._judged(look) == self._known() or self.bounded:
            return
        self._noted = self._read(self._location)  # the query may have noted more at a restart
        notes, last = self._judged(look), self._noted[-1].number
        positions = sorted({each.position for each in self._noted})
        with suppress(AlreadyPublished):  # it has done so just now: the next look will tell
            for number, position in enumerate(positions, last + 1):
                self._write(self._location, Found(notes, number, position))

    def has_read_all(self, offsets: Sequence[str | None]) -> bool:
        """Whether a query that stands at these offsets, one for each source, is at the end."""
        end = self._known_end()
        mine = [offsets[at] for at in {each.position for each in self._noted} if at < len(offsets)]
        if end is None or not mine:
            return False
        return all(has_reached(decode_offsets(offset) or {}, end) for offset in mine)

    def _read(self, location: str) -> list[Found]:
        return read_notes(open_storage(location), self._uid)

    def _write(self, location: str, found: Found) -> None:
        write_notes(open_storage(location), found)
        self._noted.append(found)

    def _known(self) -> Notes:
        return self._noted[-1].notes if self._noted else Notes(self._uid)

    def _known_end(self) -> Offsets | None:
        known = self._known()
        same = self._wanted.end is not None and str(self._wanted.end) == known.asked
        return known.end if same else None

    def _begin(self, folder: str) -> Hold | None:
        """The query opens its stream: note what is new, before the first row is read."""
        log = _Log.of(folder)
        self._noted = self._read(log.location)
        notes = self._judged(self._look)
        mine = [each for each in self._noted if each.position == log.position]
        if not mine or mine[-1].notes != notes:
            number = self._noted[-1].number + 1 if self._noted else 1
            self._write(log.location, Found(notes, number, log.position))
        return None if notes.end is None else _hold_at(notes.end)

    def _judged(self, look: Look) -> Notes:
        """What to note, if the topics are those that the query knows."""
        known, found = self._known(), look.ids
        lost = lost_topics(known.topics, found)
        if lost and self._wanted.fails_on_data_loss:
            raise KafkaDataLost(
                "; ".join(lost),
                hint="What the query has not read of it cannot be read any more. To go on without "
                "it, set options={'failOnDataLoss': False}; to read the new topic from its "
                "beginning, start the job with --fresh, or under another name.",
                source=self._uid,
                servers=self._wanted.servers,
            )
        for sentence in lost:
            _log.warning("%s: %s", self._uid, sentence)
        topics = {**known.topics, **found}
        if self._wanted.end is None:
            return Notes(self._uid, topics)
        end = self._known_end() or look.end
        return replace(known, topics=topics, asked=str(self._wanted.end), end=end)


def _hosts(servers: str) -> set[str]:
    return {each.strip() for each in servers.split(",")}


def _hold_at(end: Offsets) -> Hold:
    def hold(offset: str, start: str | None) -> str:
        reached, begun = decode_offsets(offset) or {}, decode_offsets(start) or {}
        return encode_offsets(held_at(reached, begun, end))

    return hold
