"""Records for topics, by a client that knows nothing of Spark; and what befalls topics."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from tests.services.kafka_broker import KafkaBroker
from tests.services.processes import wait_until

_numbers = count(1)


def send(
    broker: KafkaBroker,
    topic: str,
    values: Iterable[object],
    partition: int = 0,
    time: int = 0,
) -> None:
    """Records with these values, in order; ``time`` is in milliseconds."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 0})
    for value in values:
        producer.produce(topic, str(value), partition=partition, timestamp=time)
    assert producer.flush(20) == 0


def send_in_transaction(
    broker: KafkaBroker, topic: str, values: Iterable[object], *, commit: bool
) -> None:
    """The same in partition 0, committed or aborted."""
    from confluent_kafka import Producer

    name = f"test-{next(_numbers)}"
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": name})
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, str(value), partition=0)
    assert producer.flush(20) == 0
    producer.commit_transaction(20) if commit else producer.abort_transaction(20)


def add_partitions(broker: KafkaBroker, topic: str, partitions: int) -> None:
    """Up to that many."""
    from confluent_kafka.cimpl import NewPartitions

    admin = broker.admin()
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()


def remove_records(broker: KafkaBroker, topic: str, before: int, partition: int = 0) -> None:
    """As retention does it."""
    from confluent_kafka import TopicPartition

    admin = broker.admin()
    place = TopicPartition(topic, partition, before)
    admin.delete_records([place])[place].result()


def delete_topic(broker: KafkaBroker, topic: str) -> None:
    """Until the broker knows it no more."""
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in broker.admin().list_topics(timeout=10).topics, "it is gone")


def create_topic(broker: KafkaBroker, topic: str, partitions: int = 1) -> None:
    """With this very name."""
    from confluent_kafka.cimpl import NewTopic

    admin = broker.admin()
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()
