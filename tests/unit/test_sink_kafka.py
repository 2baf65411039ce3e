"""The Kafka sink without a broker: names, options, columns, records, markers, what is refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import holdfast as hf
from holdfast.errors import EnvironmentProblem, UsageError
from holdfast.protocol.sent import Owner, SentMarker
from holdfast.sinks import ClaimingSink, EpochSink, PlainSink
from holdfast.sinks.kafka import client, options
from holdfast.sinks.kafka.checks import limits_by
from holdfast.sinks.kafka.client import Cluster, KafkaFenced, KafkaRefused, KafkaUnavailable, told
from holdfast.sinks.kafka.fitting import Extremes, TopicLimits, refuse_records
from holdfast.sinks.kafka.markers import decode, encode
from holdfast.sinks.kafka.names import base_name, refuse_prefix, transactional_id
from holdfast.sinks.kafka.rows import records, refuse_columns, used

JOB = "0123456789abcdef" * 2


class Schema:
    """As much of a Spark schema as is looked at."""

    def __init__(self, **columns: str) -> None:
        self.columns = columns

    def __iter__(self) -> Any:
        return iter([_Field(name, kind) for name, kind in self.columns.items()])

    def fieldNames(self) -> list[str]:  # noqa: N802
        return list(self.columns)


class _Field:
    def __init__(self, name: str, kind: str) -> None:
        self.name, self.dataType, self._kind = name, self, kind

    def simpleString(self) -> str:  # noqa: N802
        return self._kind


# Arguments


def test_the_kinds_of_delivery_are_two_kinds_of_sink() -> None:
    exact = hf.sinks.kafka("h:1", "t")
    assert isinstance(exact, EpochSink)
    assert isinstance(exact, ClaimingSink)
    assert exact.keeps_rows
    plain = hf.sinks.kafka("h:1", "t", delivery="at-least-once")
    assert isinstance(plain, PlainSink)
    assert not isinstance(plain, EpochSink)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delivery": "exactly"}, "no delivery 'exactly'"),
        ({"parallelism": 0}, "at least 1"),
        ({"lost_markers": "maybe"}, "lost_markers"),
        ({"transactional_id_prefix": "my team/"}, "beginning of a topic's name"),
        ({"transactional_id_prefix": ""}, "beginning of a topic's name"),
        ({"options": {"transactional.id": "x"}}, "transactional.id"),
        ({"options": {"acks": "1"}}, "always all"),
        ({"options": {"kafka.security.protocol": "SSL"}}, "security.protocol"),
        ({"options": {"error_cb": print}}, "function"),
        ({"options": {"transaction.timeout.ms": "soon"}}, "not a number"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hf.sinks.kafka("h:1", "t", **arguments)


def test_servers_must_be_given() -> None:
    with pytest.raises(UsageError, match="servers"):
        hf.sinks.kafka(" ", "t")


def test_secrets_are_not_shown() -> None:
    sink = hf.sinks.kafka("h:1", "t", options={"sasl.password": "hunter2"})
    assert "hunter2" not in repr(sink)
    assert "hunter2" not in repr(Cluster("h:1", {"sasl.password": "hunter2"}))


def test_a_missing_driver_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    with pytest.raises(EnvironmentProblem, match=r"holdfast\[kafka\]"):
        client.driver()


# Names


def test_names_begin_with_the_prefix_and_differ_by_job_sink_and_part() -> None:
    assert base_name(None, JOB, "out") == f"holdfast-{JOB}-out"
    assert base_name("team.a", JOB, "out") == "team.a-out"
    assert transactional_id("team.a-out", 3) == "team.a-out-3"


def test_a_name_that_is_too_long_for_a_topic_is_refused() -> None:
    assert len(base_name(None, JOB, "x" * 100)) < 249
    with pytest.raises(UsageError, match="Kafka allows 249"):
        base_name("p" * 200, JOB, "x" * 100)
    refuse_prefix(None)


# Options


def test_options_of_producers_are_given_to_producers_only() -> None:
    given = {"linger.ms": 1, "compression.type": "zstd", "security.protocol": "SSL"}
    assert options.for_reading(given).keys() & given.keys() == {"security.protocol"}
    assert given.items() <= options.for_sending(given).items()
    assert given.items() <= options.for_transactions(given, "id").items()


def test_a_shorter_transaction_makes_the_client_give_up_earlier() -> None:
    chosen = options.for_transactions({"transaction.timeout.ms": 30_000}, "id")
    assert (chosen["transaction.timeout.ms"], chosen["message.timeout.ms"]) == (30_000, 30_000)
    assert options.for_transactions({}, "id")["transaction.timeout.ms"] == 900_000
    assert "transaction.timeout.ms" not in options.for_sending({"transaction.timeout.ms": 30_000})


def test_who_only_wants_to_look_does_not_wait_long_for_a_broker() -> None:
    patient = Cluster("h:1", {"security.protocol": "SSL"})
    assert (patient.patience, patient.impatient().patience) == (15, 2)
    assert patient.impatient().options["security.protocol"] == "SSL"
    assert Cluster("h:1", {"socket.timeout.ms": "500"}).impatient().patience == 0.5


# Columns and records


def test_all_that_is_wrong_with_the_columns_is_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        refuse_columns(Schema(key="bigint", partition="bigint"), None)
    for problem in ("no column 'value'", "no column 'topic'", "'key' is bigint", "'partition' is"):
        assert problem in caught.value.message


def test_a_topic_of_the_sink_overrides_the_column_as_in_spark() -> None:
    rows: Any = Schema(value="binary", topic="string", offset="bigint", partition="int")
    refuse_columns(rows, None)
    assert used(rows, None) == ["value", "topic", "partition"]
    assert used(rows, "mine") == ["value", "partition"]
    refuse_columns(Schema(value="string", topic="int"), "mine")


def test_rows_become_records() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(["ü", None], pa.string()),
            pa.array([b"\x00\xff", None], pa.binary()),
            pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None], header),
            pa.array([3, None], pa.int32()),
            pa.array([moment, None], pa.timestamp("us", "UTC")),
        ],
        ["key", "value", "headers", "partition", "timestamp"],
    )
    full, empty = records(rows, "t")
    assert full == (
        ("t", b"\x00\xff", "ü".encode(), 3),
        {"timestamp": 1_769_860_800_123, "headers": [("a", b"1"), ("a", None)]},
    )
    assert empty == (("t", None, None, -1), {"timestamp": 0, "headers": []})


def test_columns_that_are_not_there_are_left_to_the_client() -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["1", "2"]})
    assert list(records(rows, "t")) == [(("t", b"1", None, -1), {}), (("t", b"2", None, -1), {})]


def test_rows_may_name_their_topic() -> None:
    rows = pa.RecordBatch.from_pydict({"topic": ["a", "b"], "value": ["1", "2"]})
    assert [placed[0] for placed, _ in records(rows, None)] == ["a", "b"]


# What could never be sent

NOW = 1_790_000_000_000
HOUR = 3_600_000


def problems(*found: Extremes) -> str:
    limits = {
        "t": TopicLimits(4, 1000),
        "secret": limits_by(1, None),
        "compacted": TopicLimits(1, 1000, needs_key=True),
        "timed": TopicLimits(1, 1000, oldest=10 * HOUR, newest=HOUR),
    }
    try:
        refuse_records(list(found), limits, NOW, "out")
    except UsageError as error:
        return error.message
    return ""


def test_rows_that_fit_are_not_refused() -> None:
    assert problems(Extremes("t", 900, None, None), Extremes("secret", 10**6, 0, 0)) == ""
    assert problems(Extremes("t", 900, 0, 3, earliest=1, latest=2 * NOW, lacks_key=True)) == ""
    assert problems(Extremes("compacted", 1)) == ""
    assert problems(Extremes("timed", 1, earliest=NOW - 5 * HOUR, latest=NOW + HOUR)) == ""


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Extremes(None, 1, None, None), "no value in column 'topic'"),
        (Extremes("x", 1, None, None), "no topic 'x'"),
        (Extremes("t", 1, 0, 4), "rows name 4"),
        (Extremes("t", 1, -2, 1), "rows name -2"),
        (Extremes("t", 950, None, None), "950 bytes"),
        (Extremes("t", 1, earliest=-1), "before 1970"),
        (Extremes("t", 1, earliest=0), "or in its first millisecond"),
        (Extremes("timed", 1, latest=NOW + HOUR + 1), "message.timestamp.after.max.ms)"),
        (Extremes("timed", 1, earliest=NOW - 5 * HOUR - 1), "message.timestamp.before.max.ms)"),
        (Extremes("secret", 1 << 21), "assumed: this user lacks the right DESCRIBE_CONFIGS"),
        (Extremes("secret", 1, latest=NOW + HOUR + 1), "after.max.ms, assumed"),
        (Extremes("t", 1, lacks_header_key=True), "headers without a key"),
        (Extremes("compacted", 1, lacks_key=True), "compacted, and rows have no key"),
    ],
)
def test_rows_that_could_never_be_sent_are_refused(found: Extremes, message: str) -> None:
    assert message in problems(found)


def test_a_topics_settings_are_limits_of_its_records() -> None:
    settings = {
        "max.message.bytes": "2000",
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": str((1 << 63) - 1),
        "message.timestamp.after.max.ms": "1000",
    }
    assert limits_by(3, settings) == TopicLimits(3, 2000, needs_key=True, newest=1000)
    by_broker = {**settings, "message.timestamp.type": "LogAppendTime"}
    assert limits_by(3, by_broker) == TopicLimits(3, 2000, needs_key=True)
    assert limits_by(3, None) == TopicLimits(3, 1_048_588, newest=HOUR, is_assumed=True)


# Markers


def test_a_marker_survives_being_written() -> None:
    marker = SentMarker(Owner(JOB, "out"), 12)
    _, value = encode(marker, 100)
    assert decode(value) == marker


def test_markers_of_two_sinks_of_a_job_do_not_replace_each_other() -> None:
    """The topic is compacted: of a key only the newest record stays."""
    keys = {encode(SentMarker(Owner(JOB, sink), 1), 0)[0] for sink in ("a", "b")}
    assert len(keys) == 2


@pytest.mark.parametrize("value", [None, b"", b"{}", b'{"version": 2}', b'{"version": 1}', b"[1]"])
def test_what_is_no_marker_is_passed_over(value: bytes | None) -> None:
    assert decode(value) is None


# Errors


@pytest.mark.parametrize(
    ("name", "kind", "retryable"),
    [
        ("_TRANSPORT", KafkaUnavailable, True),
        ("_TIMED_OUT", KafkaUnavailable, True),
        ("NOT_ENOUGH_REPLICAS", KafkaUnavailable, True),
        ("_FENCED", KafkaFenced, True),
        ("PRODUCER_FENCED", KafkaFenced, True),
        ("MSG_SIZE_TOO_LARGE", KafkaRefused, False),
        ("TOPIC_AUTHORIZATION_FAILED", UsageError, False),
        ("INVALID_TRANSACTION_TIMEOUT", UsageError, False),
        ("_AUTHENTICATION", UsageError, False),
    ],
)
def test_errors_say_whether_trying_again_helps(name: str, kind: type, retryable: bool) -> None:
    kafka = client.driver()
    error = told(kafka.KafkaError(getattr(kafka.KafkaError, name)), None, servers="h:1")
    assert type(error) is kind
    assert error.retryable is retryable
    assert error.hint
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), type(copied)) == (str(error), kind)


def test_what_a_client_says_on_the_side_explains_its_failure() -> None:
    kafka = client.driver()
    heard = client.Heard()
    heard(kafka.KafkaError(kafka.KafkaError._RESOLVE, "no such host"))
    heard(kafka.KafkaError(kafka.KafkaError._ALL_BROKERS_DOWN, "all down"))
    error = told(kafka.KafkaError(kafka.KafkaError._TRANSPORT), heard)
    assert "no such host" in error.message
