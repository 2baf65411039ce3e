"""Settings of the Kafka client: which the user may choose, and which each kind of client gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import UsageError

_OURS = {
    "bootstrap.servers": "give it as the first argument",
    "metadata.broker.list": "give the servers as the first argument",
    "transactional.id": "the sink makes its own; see transactional_id_prefix",
    "enable.idempotence": "it is always on",
    "enable.gapless.guarantee": "it is not needed: rows are sent in transactions",
    "acks": "it is always all",
    "request.required.acks": "it is always all",
    "delivery.report.only.error": "the sink looks at failures itself",
    "group.id": "the sink has no consumer group",
    "isolation.level": "the sink reads committed records only",
}
_PRODUCER_ONLY = (
    *("batch.", "compression.", "delivery.", "linger.", "message.send.", "message.timeout."),
    *("partitioner", "queue.buffering.", "request.timeout.", "retries", "retry.backoff."),
    *("sticky.", "transaction."),
)
_ALL = {
    "socket.keepalive.enable": True,
    # What goes wrong is told by errors; the client would also log each try to connect.
    "log_level": 2,
}
PRODUCER = {
    # As Java's producers do it, and so Spark's: a key stays in its partition whoever writes it.
    "partitioner": "murmur2_random",
    # Memory that one task may fill with rows that the broker has not taken yet.
    "queue.buffering.max.kbytes": 65_536,
    "queue.buffering.max.messages": 1_000_000,
    "linger.ms": 20,
    # The topics' own limits count. Rows are compared with them before they are promised.
    "message.max.bytes": 1_000_000_000,
    "delivery.report.only.error": True,
}
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
MESSAGE_TIMEOUT = "message.timeout.ms"
_LONGEST_TRANSACTION = 900_000
"""The most that a broker allows if nobody has told it otherwise."""
_REQUEST_TIMEOUT = "socket.timeout.ms"
_ANSWER, _SOON = 15_000, 2_000
_BATCH = "batch.size"
_BATCH_BYTES = 1_000_000
"""What librdkafka does if it is not told."""
_PATIENCE = 120_000
"""As Java's producers have it: until then an outage of the broker is waited for."""


def refuse_options(options: Mapping[str, Any]) -> None:
    """Those that the sink sets itself, or that are written as for Spark."""
    for name in options:
        if name in _OURS:
            raise UsageError(f"the option {name} cannot be set here", hint=f"{_OURS[name]}.")
        if name.startswith("kafka."):
            plain = name.removeprefix("kafka.")
            raise UsageError(
                f"there is no option {name}",
                hint=f"Names are those of librdkafka, without 'kafka.': {plain}.",
            )
        if callable(options[name]):
            raise UsageError(f"the option {name} is a function", hint="Options are pickled values.")
    transaction_timeout(options)
    patience(options)
    with_batches_of(options, 1)


def for_reading(options: Mapping[str, Any]) -> dict[str, Any]:
    """For clients that send nothing: those of producers would only give warnings."""
    return _ALL | {k: v for k, v in options.items() if not k.startswith(_PRODUCER_ONLY)}


def for_sending(options: Mapping[str, Any]) -> dict[str, Any]:
    """For producers without transactions."""
    others = {k: v for k, v in options.items() if k != TRANSACTION_TIMEOUT}
    return _ALL | PRODUCER | {"enable.idempotence": True, MESSAGE_TIMEOUT: _PATIENCE} | others


def for_transactions(options: Mapping[str, Any], transactional_id: str) -> dict[str, Any]:
    """For producers with transactions."""
    longest = transaction_timeout(options)
    patience = {MESSAGE_TIMEOUT: min(_PATIENCE, longest)}
    fixed = {"transactional.id": transactional_id, TRANSACTION_TIMEOUT: longest}
    return _ALL | PRODUCER | patience | dict(options) | fixed


def with_batches_of(options: Mapping[str, Any], most_bytes: int) -> dict[str, Any]:
    """Brokers compare whole batches with a topic's limit, and this client does not split them."""
    chosen = _number(options, _BATCH, _BATCH_BYTES, "bytes")
    return {**options, _BATCH: min(chosen, max(most_bytes, 1))}


def transaction_timeout(options: Mapping[str, Any]) -> int:
    """Milliseconds after which the broker aborts a transaction whose writer is silent."""
    return _number(options, TRANSACTION_TIMEOUT, _LONGEST_TRANSACTION, "milliseconds")


def patience(options: Mapping[str, Any]) -> float:
    """Seconds in which a broker that is there answers a question."""
    return min(_ANSWER, _number(options, _REQUEST_TIMEOUT, _ANSWER, "milliseconds")) / 1000


def impatient(options: Mapping[str, Any]) -> dict[str, Any]:
    """For those who would rather know nothing than wait."""
    return {**options, _REQUEST_TIMEOUT: min(_SOON, int(patience(options) * 1000))}


def _number(options: Mapping[str, Any], name: str, default: int, unit: str) -> int:
    given = options.get(name, default)
    try:
        return int(given)
    except (TypeError, ValueError):
        raise UsageError(
            f"{name} is not a number: {given!r}", hint=f"Give {unit}: {default}."
        ) from None
