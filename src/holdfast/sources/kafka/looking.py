"""What Kafka has of the topics that a source wants, before a query begins or goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.protocol.kafka_offsets import Offsets, TopicPartition
from holdfast.sources.kafka.options import Subscription
from holdfast.sources.kafka.places import Edge, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.spark.kafka_admin import KafkaAdmin


@dataclass(frozen=True, slots=True)
class Look:
    """Ids of wanted and known topics that are there, and where the end is, if it was asked for."""

    ids: Mapping[str, str]
    end: Offsets | None = None


def look_at(
    spark: SparkSession, wanted: Subscription, known: Mapping[str, str], end_is_known: bool
) -> Look:
    """Ask Kafka. Topics that were never there are refused; those that are gone are left out."""
    from holdfast.spark.kafka_admin import KafkaAdmin

    with KafkaAdmin(spark, wanted.client_options()) as admin:
        names = wanted.topics if wanted.pattern is None else admin.matching(wanted.pattern)
        topics = admin.topics({*names, *known})
        _refuse_unknown(wanted, [n for n in names if n not in topics and n not in known])
        ids = {name: topic.id for name, topic in topics.items()}
        if wanted.end is None or end_is_known:
            return Look(ids)
        places = [TopicPartition(n, p) for n in names if n in topics for p in topics[n].partitions]
        _refuse_nothing(wanted, places)
        return Look(ids, _end(admin, wanted, wanted.end, places))


def _refuse_unknown(wanted: Subscription, names: list[str]) -> None:
    if names:
        raise UsageError(
            f"there is no topic {', '.join(names)}",
            hint="Create it, or look for a mistake in its name: kafka-topics.sh --list",
            servers=wanted.servers,
        )


def _refuse_nothing(wanted: Subscription, places: list[TopicPartition]) -> None:
    if not places:
        raise UsageError(
            f"no topic matches {wanted.pattern}, so there is nothing to end",
            hint="Create the topics first, or leave end away.",
            servers=wanted.servers,
        )


def _end(
    admin: KafkaAdmin, wanted: Subscription, end: Place, places: list[TopicPartition]
) -> Offsets:
    if end.offsets is not None:
        return dict(_given(admin, wanted, end.offsets, places))
    newest = _newest(admin, wanted, places)
    if end.time is None:
        return newest
    found = admin.at_time(places, end.time, wanted.isolation)
    return newest | {TopicPartition(*place): at for place, at in found.items()}


def _given(
    admin: KafkaAdmin,
    wanted: Subscription,
    offsets: Mapping[TopicPartition, int | Edge],
    places: list[TopicPartition],
) -> Iterator[tuple[TopicPartition, int]]:
    if offsets.keys() != set(places):
        raise UsageError(
            "end must name every partition of the topics, and no other",
            hint=f"Kafka has {_listed(places)}. 'latest' is an offset, too.",
            given=_listed(offsets),
        )
    newest = _newest(admin, wanted, [place for place, at in offsets.items() if at == "latest"])
    for place, at in offsets.items():
        yield place, at if isinstance(at, int) else newest[place]


def _newest(
    admin: KafkaAdmin, wanted: Subscription, places: list[TopicPartition]
) -> dict[TopicPartition, int]:
    found = admin.newest(places, wanted.isolation) if places else {}
    return {TopicPartition(*place): at for place, at in found.items()}


def _listed(places: Mapping[TopicPartition, object] | list[TopicPartition]) -> str:
    return ", ".join(str(place) for place in sorted(places))
