"""The judge: what readers see in a topic, by a client that knows nothing of the sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.services.processes import wait_until

_PATIENCE = 20.0
NONE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as a reader gets it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


def committed(servers: str, topic: str, options: Mapping[str, str] = NONE) -> list[Seen]:
    """Whatever a reader of committed records can see now, by partition and offset."""
    return _read(servers, topic, "read_committed", options)


def everything(servers: str, topic: str) -> list[Seen]:
    """Also what was aborted, or is in an open transaction."""
    return _read(servers, topic, "read_uncommitted", NONE)


def values(servers: str, topic: str, options: Mapping[str, str] = NONE) -> list[str]:
    """Committed values as text."""
    return [(record.value or b"").decode() for record in committed(servers, topic, options)]


def settle(servers: str, topic: str) -> None:
    """Wait until no transaction is open in the topic.

    A commit is decided before it is done: each partition hears of it a moment later.
    """
    ends = [Arrivals(servers, topic, level) for level in ("read_committed", "read_uncommitted")]
    wait_until(lambda: len({each.end() for each in ends}) == 1, "no transaction is open", _PATIENCE)


def in_time(check: Callable[[], None]) -> None:
    """A commit that the broker has decided reaches one partition after the other."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Arrivals:
    """Tells when a topic gets records, those of open transactions too."""

    def __init__(self, servers: str, topic: str, isolation: str = "read_uncommitted") -> None:
        from confluent_kafka import Consumer

        self._servers = servers
        self._topic = topic
        self._known: list[Any] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "judge",
                "isolation.level": isolation,
                "log_level": 2,
            }
        )

    def end(self) -> int:
        """The ends of all partitions together: it grows with each record."""
        ask = self._consumer.get_watermark_offsets
        return sum(ask(place, timeout=_PATIENCE)[1] for place in self._places())

    def _places(self) -> list[Any]:
        """Asked for once: what is waited for may last for moments only."""
        from confluent_kafka import TopicPartition

        if not self._known:
            topic = self._consumer.list_topics(self._topic, timeout=_PATIENCE).topics[self._topic]
            self._known = [TopicPartition(self._topic, number) for number in topic.partitions]
        return self._known

    def has_open_transaction(self) -> bool:
        """If nobody sends now, and nothing was ever aborted."""
        sent = len(everything(self._servers, self._topic))
        return len(committed(self._servers, self._topic)) < sent

    def has_repeated(self) -> bool:
        """Where values differ: whether records were aborted, and sent again."""
        sent = [record.value for record in everything(self._servers, self._topic)]
        return len(set(sent)) < len(sent)


def _read(servers: str, topic: str, isolation: str, options: Mapping[str, str]) -> list[Seen]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "earliest",
            **options,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        return sorted(_until_ends(consumer, len(partitions)), key=lambda r: (r.partition, r.offset))
    finally:
        consumer.close()


def _until_ends(consumer: Any, partitions: int) -> list[Seen]:
    from confluent_kafka import KafkaError, KafkaException

    seen: list[Seen] = []
    ended: set[int] = set()
    deadline = time.monotonic() + _PATIENCE
    while len(ended) < partitions:
        assert time.monotonic() < deadline, "the topic cannot be read to its end"
        for record in consumer.consume(10_000, timeout=0.02):
            error = record.error()
            if error is None:
                seen.append(_seen(record))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(record.partition())
            else:
                raise KafkaException(error)
    return seen


def _seen(record: Any) -> Seen:
    return Seen(
        record.partition(),
        record.offset(),
        record.key(),
        record.value(),
        list(record.headers() or ()),
        record.timestamp()[1],
    )
