"""How long it takes from a row's arrival in one topic until a reader sees it in another."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Producer, TopicPartition
from tests.services.kafka_broker import KafkaBroker

from bench.kafka_topics import PARTITIONS, PATIENCE, consumer

PACE = 0.02
"""Seconds from one row to the next."""
WARM_UP = 4.0
AT_LEAST = 10.0
INTERVALS = 3
_BETWEEN_LOOKS = 2.0
_TAIL = 0.5
"""A row this much younger than the last one that counts comes behind it in any partition."""


@dataclass(frozen=True, slots=True)
class Latency:
    """In seconds."""

    median: float
    p99: float


def latency(
    broker: KafkaBroker,
    topics: tuple[str, str],
    interval: float,
    refuse_dead: Callable[[], None],
) -> Latency:
    """Of the rows of some intervals, while somebody copies one topic into the other.

    ``refuse_dead`` raises if nobody does so any more.
    """
    source, target = topics
    with _arriving(broker, source):
        taken = _watch(broker, target, max(AT_LEAST, INTERVALS * interval), refuse_dead)
    return Latency(statistics.median(taken), statistics.quantiles(taken, n=100)[98])


@contextmanager
def _arriving(broker: KafkaBroker, topic: str) -> Iterator[None]:
    """While this lasts rows arrive, each with the time at which it does."""
    over = threading.Event()
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 0})

    def arrive() -> None:
        number = 0
        while not over.wait(PACE):
            producer.produce(topic, str(time.time_ns()), None, number % PARTITIONS)
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=arrive)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush(10)


def _watch(
    broker: KafkaBroker, topic: str, seconds: float, refuse_dead: Callable[[], None]
) -> list[float]:
    """Latencies of the rows that arrive in so many seconds, some time after the first was seen."""
    deadline = time.monotonic() + WARM_UP + seconds + PATIENCE
    next_look = 0.0
    reader = consumer(broker)
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    begin, newest = float("inf"), 0.0
    taken = []
    while newest < begin + seconds + _TAIL:
        if time.monotonic() > deadline:
            raise TimeoutError(f"rows do not arrive in {topic}")
        if time.monotonic() > next_look:
            refuse_dead()
            next_look = time.monotonic() + _BETWEEN_LOOKS
        for record in reader.consume(1_000, timeout=0.01):
            if record.error() is None:
                now, newest = time.time(), int(record.value()) / 1e9
                begin = min(begin, now + WARM_UP)
                if begin <= newest < begin + seconds:
                    taken.append(now - newest)
    reader.close()
    return taken
