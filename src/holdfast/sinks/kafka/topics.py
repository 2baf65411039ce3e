"""What the brokers say about a topic."""

from __future__ import annotations

from typing import Any

from holdfast.sinks.kafka.client import driver


def described(admin: Any, topic: str, patience: float, rights: bool = False) -> Any:
    """The broker's description of a topic; ``None`` if there is none."""
    kafka = driver()
    answers = admin.describe_topics(
        kafka.TopicCollection([topic]),
        include_authorized_operations=rights,
        request_timeout=patience,
    )
    try:
        return answers[topic].result()
    except kafka.KafkaException as error:
        if error.args[0].code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


def settings_of(admin: Any, topic: str, patience: float) -> dict[str, str] | None:
    """The settings of a topic; ``None`` if this user may not know them."""
    kafka = driver()
    resource = kafka.admin.ConfigResource(kafka.admin.RESOURCE_TOPIC, topic)
    try:
        found = admin.describe_configs([resource], request_timeout=patience)[resource].result()
    except kafka.KafkaException as error:
        if error.args[0].code() == kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return None
        raise
    return {name: str(entry.value) for name, entry in found.items()}
