"""Looking before the first row whether Kafka will take it, and at what it allows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.errors import UsageError
from holdfast.sinks.kafka.client import Cluster, driver
from holdfast.sinks.kafka.fitting import TopicLimits
from holdfast.sinks.kafka.topics import described, settings_of


def refuse_target(cluster: Cluster, topic: str | None) -> None:
    """A broker must answer; the topic must be there, and this user must be allowed to write it."""
    with cluster.admin() as admin:
        admin.list_topics(timeout=cluster.patience)
        if topic is not None:
            _refuse_topic(cluster, admin, topic)


def _refuse_topic(cluster: Cluster, admin: Any, topic: str) -> None:
    found = described(admin, topic, cluster.patience, rights=True)
    if found is None:
        raise UsageError(
            f"there is no topic {topic}",
            hint=f"Create it: kafka-topics.sh --create --topic {topic} --partitions …",
            topic=topic,
            servers=cluster.servers,
        )
    rights = found.authorized_operations
    if rights and driver().admin.AclOperation.WRITE not in rights:
        raise UsageError(
            f"the user of the options may not write to topic {topic}",
            hint="Run kafka-acls.sh --add --allow-principal User:… --operation Write --topic "
            f"{topic}.",
            topic=topic,
            servers=cluster.servers,
        )


def limits_of(cluster: Cluster, topics: Iterable[str]) -> dict[str, TopicLimits]:
    """Of those topics that are there."""
    found = {}
    with cluster.admin() as admin:
        for topic in topics:
            description = described(admin, topic, cluster.patience)
            if description is not None:
                settings = settings_of(admin, topic, cluster.patience)
                most = settings.get("max.message.bytes")
                found[topic] = TopicLimits(
                    len(description.partitions),
                    int(most) if most is not None else None,
                    "compact" in settings.get("cleanup.policy", ""),
                )
    return found
