"""The judge: follows both topics with clients of its own, while everything around them dies."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from contextlib import suppress
from typing import Any

from tests.services.kafka_broker import KafkaBroker

_MOST = 10_000


class Follower:
    """Reads a topic from its beginning, a little more each time. A record is given once."""

    def __init__(self, broker: KafkaBroker, topic: str, isolation: str = "read_committed") -> None:
        from confluent_kafka import Consumer

        self.topic = topic
        self._next: dict[int, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.servers,
                "group.id": "judge",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 500,
                "log_level": 2,
            }
        )

    def close(self) -> None:
        self._consumer.close()

    def find_partitions(self) -> None:
        """Also those that were added; nothing if the broker is away or the topic is not there."""
        from confluent_kafka import KafkaException, TopicPartition

        with suppress(KafkaException):
            topic = self._consumer.list_topics(self.topic, timeout=1).topics[self.topic]
            if set(topic.partitions) - set(self._next):
                self._next = {number: self._next.get(number, 0) for number in topic.partitions}
                places = [TopicPartition(self.topic, *place) for place in self._next.items()]
                self._consumer.assign(places)

    def more(self) -> list[Any]:
        """What has come since."""
        if not self._next:
            self.find_partitions()
        found = []
        records: list[Any] = self._consumer.consume(_MOST, timeout=0.01)
        for record in records:
            if record.error() is None and record.offset() >= self._next[record.partition()]:
                self._next[record.partition()] = record.offset() + 1
                found.append(record)
        return found


class Judge:
    """Compares what was put out with a recount of the committed input."""

    def __init__(self, broker: KafkaBroker, source: str, target: str, markers: str) -> None:
        self._in = Follower(broker, source)
        self._out = Follower(broker, target)
        self._uncommitted = Follower(broker, target, "read_uncommitted")
        self._markers = Follower(broker, markers)
        self._expected: dict[bytes, list[bytes]] = defaultdict(list)
        self._seen: dict[bytes, int] = defaultdict(int)
        self._places: dict[bytes, int] = {}
        self._unknown: deque[Any] = deque()
        """Rows that were put out, and are not yet known to have come in."""
        self.rows = 0
        self.sent = 0
        """Rows that a reader of uncommitted records has seen."""
        self.epochs: set[int] = set()

    def look(self) -> int:
        """Judge what is new; how many rows were put out so far."""
        self.sent += len(self._uncommitted.more())
        self._unknown += self._out.more()
        for record in self._in.more():
            self._expected[record.key()].append(record.value())
        still = deque(record for record in self._unknown if not self._judged(record))
        self._unknown = still
        return self.rows

    def _judged(self, record: Any) -> bool:
        """Whether it could be: the next row of its key, with its number, in the key's partition."""
        key, at = record.key(), self._seen[record.key()]
        if at >= len(self._expected[key]):
            return False
        where = f"key {key!r}, partition {record.partition()}, offset {record.offset()}"
        wanted = b"%s:%d" % (self._expected[key][at], at + 1)
        assert record.value() == wanted, f"{where}: {record.value()!r} instead of {wanted!r}"
        assert self._places.setdefault(key, record.partition()) == record.partition(), where
        self._seen[key] += 1
        self.rows += 1
        return True

    def count_epochs(self) -> int:
        """Checkpoints whose rows were sent, by the markers."""
        self._markers.find_partitions()
        for record in self._markers.more():
            self.epochs.add(json.loads(record.value())["checkpoint"])
        return len(self.epochs - {0})

    def has_all(self) -> bool:
        """Whether every row that came in has been put out, and nothing else."""
        self.look()
        return not self._unknown and self.rows == sum(map(len, self._expected.values()))

    @property
    def aborted(self) -> int:
        """Rows that were sent and never became visible."""
        return self.sent - self.rows

    def close(self) -> None:
        for each in (self._in, self._out, self._uncommitted, self._markers):
            each.close()
