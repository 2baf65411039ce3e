"""Looking before the first row, and before an epoch is promised, whether Kafka will take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.sinks.kafka.client import Cluster, driver
from holdfast.sinks.kafka.markers import described, setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OVERHEAD = 100
"""Bytes that a record has besides key and value, and that of the batch around it."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """What a record in a topic must keep to."""

    partitions: int
    most_bytes: int | None
    """``None`` if this user may not know it."""


def refuse_target(cluster: Cluster, topic: str | None) -> None:
    """A broker must answer; the topic must be there, and this user must be allowed to write it."""
    with cluster.admin() as admin:
        admin.list_topics(timeout=cluster.patience)
    if topic is not None:
        _refuse_topic(cluster, topic)


def _refuse_topic(cluster: Cluster, topic: str) -> None:
    with cluster.admin() as admin:
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
            hint=f"Run kafka-acls.sh --add --allow-principal User:… --operation Write --topic "
            f"{topic}.",
            topic=topic,
            servers=cluster.servers,
        )


def limits_of(cluster: Cluster, topics: list[str]) -> dict[str, TopicLimits]:
    """Of those topics that are there."""
    found = {}
    with cluster.admin() as admin:
        for topic in topics:
            if (description := described(admin, topic, cluster.patience)) is not None:
                most = setting(admin, topic, "max.message.bytes", cluster.patience)
                number = len(description.partitions)
                found[topic] = TopicLimits(number, int(most) if most is not None else None)
    return found


@dataclass(frozen=True, slots=True)
class Extremes:
    """Of the records for one topic."""

    topic: str | None
    most_bytes: int
    lowest_partition: int | None
    highest_partition: int | None


def extremes(rows: DataFrame, topic: str | None) -> list[Extremes]:
    """By topic, the largest record and the outermost partitions."""
    from pyspark.sql import functions as sf

    def size(name: str) -> Any:
        present = name in rows.columns
        return sf.coalesce(sf.octet_length(name), sf.lit(0)) if present else sf.lit(0)

    partition = sf.col("partition") if "partition" in rows.columns else sf.lit(None).cast("int")
    to = sf.lit(topic) if topic is not None else sf.col("topic")
    found = rows.groupBy(to.alias("to")).agg(
        sf.max(size("key") + size("value")), sf.min(partition), sf.max(partition)
    )
    return [Extremes(*row) for row in found.collect()]


def refuse_records(found: list[Extremes], limits: Mapping[str, TopicLimits], sink: str) -> None:
    """What could never be sent must not be promised; everything in one error."""
    problems = [problem for each in found for problem in _problems(each, limits)]
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"Kafka would not take these rows:{lines}",
            hint="Change the topic, or the rows in the region; then start from the last "
            "checkpoint: holdfast run --from PATH.",
            sink=sink,
        )


def _problems(each: Extremes, limits: Mapping[str, TopicLimits]) -> list[str]:
    if each.topic is None:
        return ["rows have no value in column 'topic'"]
    known = limits.get(each.topic)
    if known is None:
        return [f"there is no topic {each.topic!r}"]
    problems = []
    low, high = each.lowest_partition, each.highest_partition
    if low is not None and high is not None and (low < 0 or high >= known.partitions):
        wrong = low if low < 0 else high
        problems.append(
            f"topic {each.topic} has partitions 0 to {known.partitions - 1}, rows name {wrong}"
        )
    if known.most_bytes is not None and each.most_bytes + _OVERHEAD > known.most_bytes:
        problems.append(
            f"a row has {each.most_bytes} bytes in key and value, topic {each.topic} takes "
            f"records up to {known.most_bytes} bytes (max.message.bytes)"
        )
    return problems
