"""What Kafka says about its topics, asked through the client that came with Spark's connector."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, with the id that no other topic of this name will ever have."""

    id: str
    partitions: tuple[int, ...]


class KafkaAdmin:
    """A client on the driver; close it."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._jvm: Any = spark._jvm
        self._common: Any = self._jvm.org.apache.kafka.common
        self._admin: Any = self._jvm.org.apache.kafka.clients.admin
        self._client: Any = self._admin.AdminClient.create(self._java_map(options))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.close(self._jvm.java.time.Duration.ofSeconds(0))

    def matching(self, pattern: str) -> list[str]:
        """Names of topics, as Spark's pattern means them."""
        expression = self._jvm.java.util.regex.Pattern.compile(pattern)
        names = self._client.listTopics().names().get()
        return sorted(str(name) for name in names if expression.matcher(name).matches())

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of them that are there."""
        described = self._client.describeTopics(self._java_list(names)).topicNameValues()
        found = {}
        for name in names:
            if (topic := self._if_there(described.get(name))) is not None:
                partitions = tuple(sorted(each.partition() for each in topic.partitions()))
                found[name] = Topic(str(topic.topicId().toString()), partitions)
        return found

    def _if_there(self, future: Any) -> Any:
        try:
            return future.get()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()
            gone = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
            if cause is not None and cause.getClass().getName() == gone:
                return None
            raise

    def newest(self, partitions: Collection[Partition], isolation: str) -> dict[Partition, int]:
        """Behind the last record of each that a reader may see."""
        return self._offsets(partitions, self._admin.OffsetSpec.latest(), isolation)

    def at_time(
        self, partitions: Collection[Partition], milliseconds: int, isolation: str
    ) -> dict[Partition, int]:
        """The first record of each that is not older; partitions without one are left out."""
        spec = self._admin.OffsetSpec.forTimestamp(milliseconds)
        found = self._offsets(partitions, spec, isolation)
        return {place: at for place, at in found.items() if at >= 0}

    def _offsets(
        self, partitions: Collection[Partition], spec: Any, isolation: str
    ) -> dict[Partition, int]:
        asked = self._jvm.java.util.HashMap()
        for place in partitions:
            asked.put(self._common.TopicPartition(*place), spec)
        level = getattr(self._common.IsolationLevel, isolation.upper())
        options = self._admin.ListOffsetsOptions(level)
        told = self._client.listOffsets(asked, options).all().get()
        return {(p.topic(), p.partition()): told[p].offset() for p in told}

    def _java_list(self, values: Collection[str]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    def _java_map(self, values: Mapping[str, str]) -> Any:
        made = self._jvm.java.util.HashMap()
        for name, value in values.items():
            made.put(name, value)
        return made
