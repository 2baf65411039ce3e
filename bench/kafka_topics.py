"""Topics of the Kafka benchmark: filled beforehand, then looked at until all is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.services.kafka_broker import KafkaBroker

PARTITIONS = 2
KEYS = 1_000
GLANCE = 0.005
PATIENCE = 180.0
_QUEUE = {"queue.buffering.max.messages": 1_000_000}
_MOST_WAITING = 900_000


def filled_topic(broker: KafkaBroker, rows: int) -> str:
    """Small rows with a thousand keys, as many in each partition."""
    topic = broker.new_topic(PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.servers, **_QUEUE})
    for number in range(rows):
        producer.produce(topic, f"row {number}", str(number % KEYS), number % PARTITIONS)
        if len(producer) > _MOST_WAITING:
            producer.poll(0.1)
    producer.flush()
    return topic


def place(topic: str, rows: int) -> dict[str, dict[int, int]]:
    """Where so many rows of a filled topic end."""
    return {topic: dict.fromkeys(range(PARTITIONS), rows // PARTITIONS)}


def remove_topic(broker: KafkaBroker, topic: str) -> None:
    """Its files would fill the memory."""
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result()


def wait_for_counts(broker: KafkaBroker, topic: str, rows: int) -> float:
    """When the newest counts of all keys, as a reader of committed records sees them, add up."""
    counts: dict[bytes, int] = {}
    total = 0
    with_deadline = _until(f"counts of {rows} rows in {topic}")
    for key, value in _committed(broker, topic):
        next(with_deadline)
        if key is None:
            continue
        new = int(value)
        total += new - counts.get(key, 0)
        counts[key] = new
        if total >= rows:
            return time.time()
    raise AssertionError("unreachable")


def wait_for_rows(broker: KafkaBroker, topic: str, rows: int) -> float:
    """When a reader of committed records could read them all; it does not, to take no time."""
    reader = consumer(broker)
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    for _ in _until(f"{rows} rows in {topic}"):
        if sum(reader.get_watermark_offsets(place, timeout=10)[1] for place in places) >= rows:
            break
        time.sleep(GLANCE)
    at = time.time()
    reader.close()
    return at


def refuse_other_rows(broker: KafkaBroker, topic: str, rows: int) -> None:
    """There must be that many."""
    found = sum(key is not None for key, _ in _committed(broker, topic, to_end=True))
    if found != rows:
        raise AssertionError(f"{found} rows of {rows} in {topic}")


def refuse_other_counts(broker: KafkaBroker, topic: str, rows: int) -> None:
    """The newest counts of all keys must add up to just that."""
    records = _committed(broker, topic, to_end=True)
    counts = {key: int(value) for key, value in records if key is not None}
    if sum(counts.values()) != rows:
        raise AssertionError(f"counts of {sum(counts.values())} rows instead of {rows} in {topic}")


def consumer(broker: KafkaBroker) -> Any:
    """Of committed records."""
    return Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "auto.offset.reset": "earliest",
        }
    )


def _committed(
    broker: KafkaBroker, topic: str, to_end: bool = False
) -> Iterator[tuple[bytes | None, bytes]]:
    """Keys and values; a key ``None`` now and then, while there is nothing, unless ``to_end``."""
    reader = consumer(broker)
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    ended: set[int] = set()
    try:
        while not to_end or len(ended) < PARTITIONS:
            yield None, b""
            for record in reader.consume(10_000, timeout=0.02):
                if record.error() is None:
                    yield record.key(), record.value()
                else:
                    ended.add(record.partition())
    finally:
        reader.close()


def _until(what: str) -> Iterator[None]:
    """Goes on until it has taken too long."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
    raise TimeoutError(f"not within {PATIENCE:.0f} s: {what}")
