"""A broker that knows its users: what is refused, and that the rights we ask for are enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import UsageError
from holdfast.protocol.sent import Owner
from holdfast.sinks.kafka.checks import limits_of, refuse_target
from holdfast.sinks.kafka.client import Cluster
from holdfast.sinks.kafka.sending import PartOfEpoch, send_part
from holdfast.sinks.kafka.sink import KafkaSink
from tests.services.kafka_broker import KafkaBroker, guarded_broker, login_of
from tests.services.kafka_reading import values
from tests.services.processes import wait_until

JOB = "ab" * 16


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaBroker]:
    with guarded_broker("writer") as broker:
        yield broker


def grant(broker: KafkaBroker, kind: str, name: str, pattern: str, *operations: str) -> None:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    rights = [
        AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType[pattern],
            "User:writer",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    admin = broker.admin()
    for answer in admin.create_acls(rights).values():
        answer.result()


def test_each_right_that_is_missing_is_told_and_those_we_ask_for_are_enough(
    guarded: KafkaBroker,
) -> None:
    topic = guarded.new_topic()
    cluster = Cluster(guarded.servers, login_of("writer"))
    sink = KafkaSink(cluster, topic, prefix="team")

    refused(lambda: refuse_target(cluster, topic), "there is no topic|Topic authorization failed")
    grant(guarded, "TOPIC", topic, "LITERAL", "DESCRIBE")
    refused(lambda: refuse_target(cluster, topic), "may not write to topic")
    grant(guarded, "TOPIC", topic, "LITERAL", "WRITE")
    allowed(lambda: refuse_target(cluster, topic))

    refused(lambda: sink.claim(JOB, "out"), "Topic authorization failed(?s:.*)CREATE")
    grant(guarded, "TOPIC", "team", "PREFIXED", "DESCRIBE")
    refused(lambda: sink.claim(JOB, "out"), "cannot be made(?s:.*)kafka-topics.sh")
    grant(guarded, "TOPIC", "team", "PREFIXED", "CREATE", "READ", "WRITE")
    refused(lambda: sink.claim(JOB, "out"), "may not read its settings(?s:.*)DescribeConfigs")
    grant(guarded, "TOPIC", "team", "PREFIXED", "DESCRIBE_CONFIGS")
    refused(lambda: sink.claim(JOB, "out"), "(?i)transactional id authorization failed(?s:.*)WRITE")
    grant(guarded, "TRANSACTIONAL_ID", "team", "PREFIXED", "DESCRIBE", "WRITE")
    allowed(lambda: sink.claim(JOB, "out"))

    assert limits_of(cluster, [topic])[topic].is_assumed
    grant(guarded, "TOPIC", topic, "LITERAL", "DESCRIBE_CONFIGS")
    wait_until(lambda: not limits_of(cluster, [topic])[topic].is_assumed, "settings are read", 20)

    rows = pa.RecordBatch.from_pydict({"value": ["1", "2"]})
    owner = Owner(JOB, "out")
    send_part(cluster, PartOfEpoch("team-out", 0, owner, owner, 1), [rows], topic)
    assert values(guarded.servers, topic, guarded.options) == ["1", "2"]


def refused(call: Any, message: str) -> None:
    """Rights take a moment to reach the broker."""

    def is_refused() -> bool:
        with pytest.raises(UsageError) as caught:
            call()
        return re.search(message, str(caught.value)) is not None

    wait_until(is_refused, f"it is refused: {message}", 20)


def allowed(call: Any) -> None:

    def works() -> bool:
        try:
            call()
        except UsageError:
            return False
        return True

    wait_until(works, "it is allowed", 20)


def test_a_wrong_password_is_told_without_it(guarded: KafkaBroker) -> None:
    options = {**login_of("writer", "hunter2"), "socket.timeout.ms": "3000"}
    with pytest.raises(Exception, match=r"(?i)authentication") as caught:
        refuse_target(Cluster(guarded.servers, options), None)
    assert "hunter2" not in str(caught.value)
