"""The way to a Kafka cluster: clients of it, and what their errors mean."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import EnvironmentProblem, HoldfastError, StorageError, UsageError
from holdfast.sinks.kafka import options as client_options
from holdfast.sinks.kafka.options import TRANSACTION_TIMEOUT

_log = logging.getLogger("holdfast.kafka")
# Executors have no handlers, and Python would print the client's words on their standard error.
_log.addHandler(logging.NullHandler())


class KafkaUnavailable(StorageError):
    """The cluster cannot do it now."""

    code = "KAFKA_UNAVAILABLE"


class KafkaFenced(KafkaUnavailable):
    """Another writer with the same transactional id has begun after this one."""

    code = "KAFKA_FENCED"


class KafkaRefused(StorageError):
    """The cluster does not take it, now or later."""

    code = "KAFKA_REFUSED"
    retryable = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it is, and how to talk to it. Options may hold passwords, so they are never shown."""

    servers: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return self.servers

    @property
    def patience(self) -> float:
        """Seconds in which a broker that is there answers a question."""
        return client_options.patience(self.options)

    def impatient(self) -> Cluster:
        """The same; a broker that does not answer soon counts as away."""
        return replace(self, options=client_options.impatient(self.options))

    def with_batches_of(self, most_bytes: int | None) -> Cluster:
        """The same; no batch of records has more than that, unless one record alone has."""
        if most_bytes is None:
            return self
        return replace(self, options=client_options.with_batches_of(self.options, most_bytes))

    @contextmanager
    def admin(self) -> Iterator[Any]:
        """A client for questions."""
        kafka = driver()
        settings = self._settings(client_options.for_reading(self.options))
        heard = Heard()
        with self.telling(heard):
            client = kafka.admin.AdminClient({**settings, "error_cb": heard}, logger=_log)
            try:
                yield client
            except kafka.KafkaException:
                client.poll(0)  # lets the client say why
                raise

    @contextmanager
    def consumer(self) -> Iterator[Any]:
        """A reader of committed records, of no group: it is assigned its partitions."""
        kafka = driver()
        settings = {
            **self._settings(client_options.for_reading(self.options)),
            "group.id": "holdfast",  # must be given, and is not used
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # until the broker says that there is no more
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
        heard = Heard()
        with self.telling(heard):
            client = kafka.Consumer({**settings, "error_cb": heard}, logger=_log)
            try:
                yield client
            finally:
                client.close()

    def transactional(self, transactional_id: str, failures: Heard) -> Any:
        """A producer that has not said a word to the broker yet."""
        settings = client_options.for_transactions(self.options, transactional_id)
        return self._producer(settings, failures)

    def plain(self, failures: Heard) -> Any:
        """A producer without transactions."""
        return self._producer(client_options.for_sending(self.options), failures)

    def _producer(self, chosen: Mapping[str, Any], failures: Heard) -> Any:
        kafka = driver()
        settings = {**self._settings(chosen), "error_cb": failures, "on_delivery": failures.failed}
        with self.telling():
            return kafka.Producer(settings, logger=_log)

    def _settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        return {"client.id": "holdfast", **chosen, "bootstrap.servers": self.servers}

    @contextmanager
    def telling(self, heard: Heard | None = None, **ids: object) -> Iterator[None]:
        """Errors of the client become ours."""
        kafka = driver()
        try:
            yield
        except kafka.KafkaException as error:
            raise told(error.args[0], heard, servers=self.servers, **ids) from None


@dataclass(slots=True)
class Heard:
    """What a client says on the side: why it cannot connect, which records were refused."""

    words: str = ""
    refused: Any = None
    """The first failure of a record."""
    fatal: Any = None
    """What the client itself could not get over: from then on it only says that there was one."""

    def __call__(self, error: Any) -> None:
        """The client cannot reach somebody."""
        self.note(error)
        # The last word is often only that all brokers are down, which explains nothing.
        if error.code() != driver().KafkaError._ALL_BROKERS_DOWN or not self.words:
            self.words = error.str()

    def note(self, error: Any) -> None:
        """Remember what the client cannot get over."""
        if error.fatal() and error.code() != driver().KafkaError._FATAL:
            self.fatal = error

    def failed(self, error: Any, record: Any) -> None:  # noqa: ARG002
        """A record was not taken."""
        if error is not None and self.refused is None:
            self.refused = error

    def raise_refused(self, **ids: object) -> None:
        """Tell of a record that was not taken, if there is one."""
        if self.refused is not None:
            raise told(self.refused, self, **ids)


def told(error: Any, heard: Heard | None = None, **ids: object) -> HoldfastError:
    """The client's error as ours: whether trying again helps, and what to do."""
    if error.code() == driver().KafkaError._FATAL and heard is not None:
        error = heard.fatal or error
    for kind, hint, names in _MEANINGS:
        if error.code() in _codes(names):
            return kind(f"{_PHRASES[kind]}: {error.str()}", hint=hint, error=error.name(), **ids)
    reason = f" ({heard.words})" if heard is not None and heard.words else ""
    return KafkaUnavailable(
        f"Kafka cannot be reached or cannot do it now: {error.str()}{reason}",
        hint="See whether the brokers run and can be reached from here. Rows that wait are kept.",
        error=error.name(),
        **ids,
    )


_PHRASES: dict[type[HoldfastError], str] = {
    UsageError: "Kafka does not allow this",
    KafkaRefused: "Kafka refuses the rows",
    KafkaFenced: "another writer has taken this one's place",
}
_RIGHTS = (
    "Let an administrator give the user of the options these rights: WRITE, DESCRIBE and "
    "DESCRIBE_CONFIGS on the topic, WRITE and DESCRIBE on transactional ids with the sink's "
    "prefix, READ, WRITE, CREATE and DESCRIBE_CONFIGS on topics with it."
)
_MEANINGS: tuple[tuple[type[HoldfastError], str, tuple[str, ...]], ...] = (
    (
        UsageError,
        _RIGHTS,
        (
            "TOPIC_AUTHORIZATION_FAILED",
            "CLUSTER_AUTHORIZATION_FAILED",
            "GROUP_AUTHORIZATION_FAILED",
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ),
    ),
    (
        UsageError,
        "Check user, password and mechanism in the sink's options.",
        ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"),
    ),
    (
        UsageError,
        "Check the sink's options; names and values are those of librdkafka.",
        ("_INVALID_ARG",),
    ),
    (
        UsageError,
        "The broker's transaction.max.timeout.ms is smaller. Give what it allows: "
        f"options={{'{TRANSACTION_TIMEOUT}': …}}. Sending an epoch must not take longer than that.",
        ("INVALID_TRANSACTION_TIMEOUT",),
    ),
    (
        KafkaRefused,
        "Raise max.message.bytes of the topic, or make the rows smaller in the region.",
        ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"),
    ),
    (
        KafkaRefused,
        "Create the topic, or add the partition. The rows are kept and sent then.",
        ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "TOPIC_EXCEPTION"),
    ),
    (
        KafkaRefused,
        "Look at the topic's settings: it takes only records with keys, or of certain times.",
        ("INVALID_RECORD", "INVALID_TIMESTAMP", "POLICY_VIOLATION"),
    ),
    (
        KafkaFenced,
        "If two processes run this job, stop one. If a transaction took longer than "
        f"{TRANSACTION_TIMEOUT}, raise it. It is tried again.",
        (
            "_FENCED",
            "PRODUCER_FENCED",
            "INVALID_PRODUCER_EPOCH",
            "INVALID_PRODUCER_ID_MAPPING",
            "INVALID_TXN_STATE",
        ),
    ),
)


def _codes(names: tuple[str, ...]) -> set[int]:
    errors = driver().KafkaError
    return {getattr(errors, name) for name in names if hasattr(errors, name)}


def driver() -> Any:
    """confluent-kafka, which is not needed by those who have no such sink."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise EnvironmentProblem(
            f"the Kafka sink needs the package confluent-kafka: {error}",
            hint="Run pip install 'holdfast[kafka]', on executors too.",
        ) from None
    return confluent_kafka
