"""Producers in one thread: handing over records, and transactions around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from holdfast.sinks.kafka.client import Cluster, Heard, driver
from holdfast.sinks.kafka.names import transactional_id
from holdfast.sinks.kafka.rows import Record

_END = 5.0
_POLL = 0.1


class Sender:
    """A producer, with or without transactions."""

    def __init__(self, cluster: Cluster, producer: Any, heard: Heard) -> None:
        self._cluster = cluster
        self._heard = heard
        self.producer = producer

    def send(self, found: Iterable[Record]) -> None:
        """Hand records to the client; wait while its memory is full."""
        produce = self.producer.produce
        with self.telling():
            for placed, named in found:
                while True:
                    try:
                        produce(*placed, **named)
                    except BufferError:
                        self._make_room()
                    else:
                        break

    def _make_room(self) -> None:
        self.producer.poll(_POLL)
        self._heard.raise_refused(servers=self._cluster.servers)

    def arrive(self) -> None:
        """Wait until the brokers have every record, or have refused one."""
        with self.telling():
            while self.producer.flush(_POLL) and self._heard.refused is None:
                pass
        self._heard.raise_refused(servers=self._cluster.servers)

    def close(self) -> None:
        """Let the producer go, with all that it has not sent."""
        self.producer.purge()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """A context in which the client's errors become ours."""
        with self._cluster.telling(self._heard):
            try:
                yield
            except driver().KafkaException as error:
                self._heard.note(error.args[0])
                self._let_it_say_why()
                raise

    def _let_it_say_why(self) -> None:
        try:
            self.producer.poll(0)
        except driver().KafkaException as error:
            self._heard.note(error.args[0])


class Writer:
    """A producer with one transactional id."""

    def __init__(self, cluster: Cluster, base: str, part: int) -> None:
        self.id = transactional_id(base, part)
        self._patience = cluster.patience
        heard = Heard()
        self._sender = Sender(cluster, cluster.transactional(self.id, heard), heard)
        self.send = self._sender.send
        self.arrive = self._sender.arrive
        self.close = self._sender.close

    def fence(self) -> None:
        """Take the place of every earlier writer with this id, and end what it has left open."""
        # The broker must first end what an earlier writer has left.
        with self._sender.telling():
            self._sender.producer.init_transactions(2 * self._patience)

    def begin(self) -> None:
        """From here on records belong to a transaction."""
        with self._sender.telling():
            self._sender.producer.begin_transaction()

    def commit(self) -> None:
        """Let the records appear."""
        with self._sender.telling():
            self._sender.producer.commit_transaction(self._patience)

    def abort(self) -> None:
        """Readers would wait until the broker does it. If it fails, the next writer does it."""
        with suppress(Exception):
            self._sender.producer.abort_transaction(_END)
