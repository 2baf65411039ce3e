"""Looking before the first row whether Kafka will take it, and at what it allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.errors import UsageError
from holdfast.sinks.kafka.client import Cluster, driver
from holdfast.sinks.kafka.fitting import TopicLimits
from holdfast.sinks.kafka.topics import described, settings_of

_SIZE, _POLICY = "max.message.bytes", "cleanup.policy"
_TIME, _BEFORE, _AFTER = (
    f"message.timestamp.{name}" for name in ("type", "before.max.ms", "after.max.ms")
)
_DEFAULTS = {_SIZE: "1048588", _AFTER: "3600000"}
"""Of topics, as Kafka 4 has them; older brokers allow any time ahead."""
_UNLIMITED = (1 << 63) - 1


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
                found[topic] = limits_by(len(description.partitions), settings)
    return found


def limits_by(partitions: int, settings: Mapping[str, str] | None) -> TopicLimits:
    """What the settings of a topic mean for records; ``None`` if this user may not know them."""
    chosen = _DEFAULTS if settings is None else settings
    is_time_of_sending = chosen.get(_TIME) == "LogAppendTime"  # whatever the record says
    return TopicLimits(
        partitions,
        int(chosen.get(_SIZE, _DEFAULTS[_SIZE])),
        needs_key="compact" in chosen.get(_POLICY, ""),
        oldest=None if is_time_of_sending else _milliseconds(chosen.get(_BEFORE)),
        newest=None if is_time_of_sending else _milliseconds(chosen.get(_AFTER)),
        is_assumed=settings is None,
    )


def _milliseconds(setting: str | None) -> int | None:
    if setting is None or int(setting) == _UNLIMITED:
        return None
    return int(setting)
