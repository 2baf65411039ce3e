"""The topic with a sink's markers: what it has sent, part by part.

Each part of an epoch has a partition of its own, and of an owner only the newest marker counts: the
topic is compacted, and so keeps that one for ever. Offsets of a consumer group, which could be sent
in the same transaction, would not do: the broker forgets those of a group without members after
``offsets.retention.minutes``, and an epoch whose marker is gone would be sent again.

A topic for each sink, because readers of committed records wait at the first open transaction of
a partition, whoever it belongs to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.errors import UsageError
from holdfast.protocol.sent import Owner, SentMarker
from holdfast.sinks.kafka.client import Cluster, KafkaUnavailable, driver
from holdfast.sinks.kafka.topics import described, settings_of

_VERSION = 2
_GLANCE = 0.05
_FIRST_STRIDE = 32
"""Records from the end that are read first: what is looked for is nearly always there."""
_SETTINGS = {
    "cleanup.policy": "compact",
    # Small and soon closed: what is still open is not compacted, and would be read in full.
    "segment.bytes": str(1 << 20),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}


def encode(marker: SentMarker, rows: int) -> tuple[bytes, bytes]:
    """Key and value of the record; rows and time are for people."""
    owner = marker.owner
    value = {
        "version": _VERSION,
        "job": owner.job_id,
        "sink": owner.sink,
        "checkpoint": marker.checkpoint,
        "rows": rows,
        "at": datetime.now(UTC).isoformat(" ", "milliseconds"),
    }
    return f"{owner.job_id}/{owner.sink}".encode(), json.dumps(value).encode()


def decode(value: bytes | None) -> SentMarker | None:
    """The inverse; ``None`` for what is no marker of this version."""
    try:
        item = json.loads(value or b"")
        if item["version"] != _VERSION:
            return None
        return SentMarker(Owner(item["job"], item["sink"]), int(item["checkpoint"]))
    except (ValueError, TypeError, LookupError):
        return None


@dataclass(frozen=True, slots=True)
class MarkerTopic:
    """As the broker describes it."""

    id: str
    """Another one if somebody has deleted the topic and made it anew."""
    partitions: int


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of one sink."""

    cluster: Cluster
    topic: str

    # For a sink that starts

    def ensure(self, partitions: int) -> MarkerTopic:
        """Make the topic, or give it more partitions, if that is needed."""
        with self.cluster.admin() as admin:
            found = described(admin, self.topic, self.cluster.patience)
            if found is None:
                self._create(admin, partitions)
            elif len(found.partitions) < partitions:
                self._add(admin, partitions)
            made = self._wait_for(partitions)
            self._refuse_other_policy(admin)
        return made

    def _wait_for(self, partitions: int) -> MarkerTopic:
        """Brokers hear of a new topic one after the other."""
        deadline = time.monotonic() + self.cluster.patience
        while time.monotonic() < deadline:
            found = self.find()
            if found is not None and found.partitions >= partitions:
                return found
            time.sleep(_GLANCE)
        raise KafkaUnavailable(
            "the topic with the sink's markers was made, and is not there",
            hint="Look at the logs of the brokers.",
            topic=self.topic,
            servers=self.cluster.servers,
        )

    def _create(self, admin: Any, partitions: int) -> None:
        kafka = driver()
        topic = kafka.admin.NewTopic(self.topic, partitions, -1, config=_SETTINGS)
        try:
            admin.create_topics([topic], request_timeout=self.cluster.patience)[self.topic].result()
        except kafka.KafkaException as error:
            if error.args[0].code() == kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                return  # another process was quicker
            raise UsageError(
                f"the topic with the sink's markers cannot be made: {error.args[0].str()}",
                hint="Let somebody with the right to do so run kafka-topics.sh --create --topic "
                f"{self.topic} --partitions {partitions} --config cleanup.policy=compact.",
                topic=self.topic,
            ) from None

    def _add(self, admin: Any, partitions: int) -> None:
        more = driver().admin.NewPartitions(self.topic, partitions)
        answers = admin.create_partitions([more], request_timeout=self.cluster.patience)
        answers[self.topic].result()

    def _refuse_other_policy(self, admin: Any) -> None:
        """A topic that forgets old records would let epochs be sent twice."""
        settings = self._settings(admin)
        if settings is None:
            raise UsageError(
                "it cannot be seen whether the topic with the sink's markers keeps them for ever: "
                "the user of the options may not read its settings",
                hint="Run kafka-acls.sh --add --allow-principal User:… --operation DescribeConfigs "
                f"--topic {self.topic}, or the same with --resource-pattern-type prefixed for the "
                "prefix. Do so for the topics that are written, too: what they take is looked up.",
                topic=self.topic,
            )
        policy = settings.get("cleanup.policy")
        if policy != "compact":
            raise UsageError(
                f"the topic with the sink's markers has cleanup.policy={policy}",
                hint="It must keep markers for ever: run kafka-configs.sh --alter --entity-type "
                f"topics --entity-name {self.topic} --add-config cleanup.policy=compact.",
                topic=self.topic,
            )

    def _settings(self, admin: Any) -> dict[str, str] | None:
        """The broker that is asked may be the last to hear of a new topic."""
        kafka = driver()
        deadline = time.monotonic() + self.cluster.patience
        while True:
            try:
                return settings_of(admin, self.topic, self.cluster.patience)
            except kafka.KafkaException as error:
                is_new = error.args[0].code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
                if not is_new or time.monotonic() > deadline:
                    raise
            time.sleep(_GLANCE)

    def find(self) -> MarkerTopic | None:
        """What the topic is now; ``None`` if it is not there."""
        with self.cluster.admin() as admin:
            found = described(admin, self.topic, self.cluster.patience)
        if found is None:
            return None
        return MarkerTopic(str(found.topic_id), len(found.partitions))

    # What has been sent: all of it, if no transaction is open

    def of(self, part: int, *owners: Owner) -> list[SentMarker]:
        """Markers of a part, oldest first, at least back to the newest of each owner."""
        wanted = set(owners)
        return self._tail(part, lambda found: wanted <= {marker.owner for marker in found})

    def last(self, part: int) -> SentMarker | None:
        """The newest marker of a part, whoever wrote it."""
        found = self._tail(part, bool)
        return found[-1] if found else None

    def _tail(self, part: int, is_enough: Callable[[list[SentMarker]], bool]) -> list[SentMarker]:
        """Read from the end backwards, in growing strides."""
        with self.cluster.consumer() as consumer:
            low, end = self._bounds(consumer, part)
            stride = _FIRST_STRIDE
            while True:
                start = max(low, end - stride)
                found = list(self._read(consumer, part, start, end))
                if start == low or is_enough(found):
                    return found
                stride *= _FIRST_STRIDE

    def _bounds(self, consumer: Any, part: int) -> tuple[int, int]:
        partition = driver().TopicPartition(self.topic, part)
        low, end = consumer.get_watermark_offsets(partition, timeout=self.cluster.patience)
        return int(low), int(end)

    def _read(self, consumer: Any, part: int, start: int, end: int) -> Iterator[SentMarker]:
        kafka = driver()
        if start >= end:
            return
        consumer.assign([kafka.TopicPartition(self.topic, part, start)])
        while True:
            record = consumer.poll(self.cluster.patience)
            if record is None:
                raise KafkaUnavailable(
                    "the sink's markers cannot be read to their end",
                    hint="Are the brokers in good order? It is tried again.",
                    topic=self.topic,
                    partition=part,
                )
            error = record.error()
            if error is None:
                if (marker := decode(record.value())) is not None:
                    yield marker
            elif error.code() == kafka.KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue  # the client asks for a group that it does not use
            elif error.code() != kafka.KafkaError._PARTITION_EOF:
                raise kafka.KafkaException(error)
            elif record.offset() >= end:
                return
