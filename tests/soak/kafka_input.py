"""A producer that writes all the time, in transactions of which some are aborted."""

from __future__ import annotations

import threading
from contextlib import suppress
from random import Random
from typing import Any

from tests.services.kafka_broker import KafkaBroker

KEYS = 20
_ROWS = 30
_PAUSE = 0.15
_PATIENCE = 60.0
_ABORTED = 0.2


class Input:
    """No number comes twice, and those of a key grow; which are committed the topic alone knows."""

    def __init__(self, broker: KafkaBroker, topic: str, seed: int) -> None:
        self._broker = broker
        self._topic = topic
        self._dice = Random(seed)
        self._next = 0
        self.aborted = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when nothing is open, or the broker has been away for too long."""
        self._over.set()
        self._thread.join(2 * _PATIENCE)

    def _write(self) -> None:
        """A producer that fails is replaced; its successor ends what it has left."""
        from confluent_kafka import KafkaException

        while not self._over.is_set():
            with suppress(KafkaException):
                producer = self._producer()
                while not self._over.is_set():
                    self._transaction(producer)
                    self._over.wait(_PAUSE)
        self._end()

    def _producer(self) -> Any:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self._broker.servers,
                "transactional.id": f"input-of-{self._topic}",
                "partitioner": "murmur2_random",
                "linger.ms": 0,
                "log_level": 2,
            }
        )
        producer.init_transactions(_PATIENCE)
        return producer

    def _transaction(self, producer: Any) -> None:
        is_aborted = self._dice.random() < _ABORTED
        producer.begin_transaction()
        for _ in range(_ROWS):
            key = str(self._dice.randrange(KEYS))
            producer.produce(self._topic, str(self._next), key)
            self._next += 1
        producer.flush(_PATIENCE)
        if is_aborted:
            producer.abort_transaction(_PATIENCE)
            self.aborted += _ROWS
        else:
            producer.commit_transaction(_PATIENCE)

    def _end(self) -> None:
        from confluent_kafka import KafkaException

        while True:
            with suppress(KafkaException):
                self._producer()
                return
