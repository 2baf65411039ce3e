"""Look into a topic, by a client that knows nothing of Holdfast.

    python examples/page_views_kafka/reader.py SERVERS [TOPIC] [--follow] [--uncommitted]

Shows what a reader with ``isolation.level=read_committed`` sees; with ``--uncommitted`` also rows
of transactions that are open or were aborted, as Kafka does by default.
"""

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

TOPIC = "counts"
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    key: str
    value: str


def read(servers: str, topic: str, isolation: str = COMMITTED) -> list[Record]:
    """Everything that such a reader can see now."""
    found = []
    with opened(servers, topic, isolation) as consumer:
        unread = {place.partition for place in consumer.assignment()}
        while unread:
            for message in consumer.consume(1000, timeout=0.1):
                if is_end(message):
                    unread.discard(message.partition())
                else:
                    found.append(record(message))
    return sorted(found, key=lambda one: (one.partition, one.offset))


def newest(consumer: Consumer) -> list[Record]:
    """What can be seen since the last call; all of a transaction, from all partitions."""
    found: list[Record] = []
    while messages := consumer.consume(1000, timeout=0.2):
        found += [record(message) for message in messages if not is_end(message)]
    return found


@contextmanager
def opened(servers: str, topic: str, isolation: str = COMMITTED) -> Iterator[Consumer]:
    """At the beginning of every partition; of no group, so no other reader is disturbed."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",  # must be given, and is not used
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        yield consumer
    finally:
        consumer.close()


def is_end(message: Any) -> bool:
    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return True


def record(message: Any) -> Record:
    key, value = ((part or b"").decode() for part in (message.key(), message.value()))
    return Record(message.partition(), message.offset(), key, value)


def show(records: list[Record]) -> None:
    for one in records:
        print(f"{one.partition:>3} {one.offset:>6}  {one.key:<9} {one.value}", flush=True)


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # for `| head`
    words = argparse.ArgumentParser(description="Look into a topic.")
    words.add_argument("servers")
    words.add_argument("topic", nargs="?", default=TOPIC)
    words.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    words.add_argument("--uncommitted", action="store_true", help="as Kafka does by default")
    given = words.parse_args()
    isolation = UNCOMMITTED if given.uncommitted else COMMITTED
    if not given.follow:
        show(read(given.servers, given.topic, isolation))
        return
    with suppress(KeyboardInterrupt), opened(given.servers, given.topic, isolation) as consumer:
        while True:
            show(newest(consumer))


if __name__ == "__main__":
    main()
