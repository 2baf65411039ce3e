"""What a Kafka source is told and notes, without a broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import AlreadyPublished, DamagedFile, UnknownFormat, UsageError
from holdfast.protocol.kafka_offsets import (
    TopicPartition,
    decode_offsets,
    encode_offsets,
    has_reached,
    held_at,
)
from holdfast.protocol.kafka_topics import lost_topics
from holdfast.protocol.lag import PartitionLag, partition_lags, source_lag
from holdfast.sources.kafka.looking import Look
from holdfast.sources.kafka.notes import Found, Notes, decode_notes, encode_notes, read_notes
from holdfast.sources.kafka.notes import write_notes as write
from holdfast.sources.kafka.options import Subscription
from holdfast.sources.kafka.source import KafkaDataLost, KafkaReading, KafkaSource
from holdfast.storage import open_storage

HERE = "broker:9092"


def wanted(*arguments: Any, **options: Any) -> Subscription:
    return hf.sources.kafka(*arguments, **options)._wanted


def spark_options(**options: Any) -> dict[str, str]:
    return wanted(HERE, "clicks", **options).spark_options()


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        hf.sources.kafka(*arguments, **options)
    return caught.value.message


def at(**partitions: int) -> dict[TopicPartition, int]:
    """``a0=5``: offset 5 of partition 0 of topic a."""
    return {TopicPartition(name[0], int(name[1:])): offset for name, offset in partitions.items()}


# Arguments


def test_what_is_not_said_is_safe() -> None:
    assert spark_options() == {
        "subscribe": "clicks",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "kafka.bootstrap.servers": HERE,
        "kafka.isolation.level": "read_committed",
    }


def test_servers_and_topics_are_texts_or_lists() -> None:
    several = wanted("a:1, [::1]:2", "x, y").spark_options()
    assert several == wanted(["a:1", "[::1]:2"], ("x", "y")).spark_options()
    assert several["kafka.bootstrap.servers"] == "a:1,[::1]:2"
    assert several["subscribe"] == "x,y"


def test_a_pattern_takes_the_place_of_topics() -> None:
    options = wanted(HERE, pattern="clicks-.*").spark_options()
    assert options["subscribePattern"] == "clicks-.*"
    assert "subscribe" not in options


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_MS = 1_767_355_200_000


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ("earliest", {"startingOffsets": "earliest"}),
        ("latest", {"startingOffsets": "latest"}),
        (NOON, {"startingTimestamp": str(NOON_MS)}),
        (NOON.astimezone(timezone(timedelta(hours=5))), {"startingTimestamp": str(NOON_MS)}),
        (NOON_MS, {"startingTimestamp": str(NOON_MS)}),
        (
            {"clicks": {1: 7, 0: "earliest", 2: "latest"}},
            {"startingOffsets": '{"clicks":{"0":-2,"1":7,"2":-1}}'},
        ),
    ],
)
def test_every_kind_of_start_becomes_sparks_option(start: Any, options: dict[str, str]) -> None:
    found = spark_options(start=start)
    assert {k: v for k, v in found.items() if k in ("startingOffsets", "startingTimestamp")} == (
        options
    )


def test_a_partition_with_nothing_so_late_is_read_from_its_end_unless_the_user_says_error() -> None:
    strategy = "startingOffsetsByTimestampStrategy"
    assert spark_options(start=NOON)[strategy] == "latest"
    assert spark_options(start=NOON, options={strategy: "error"})[strategy] == "error"


def test_other_options_go_to_spark_and_to_the_client() -> None:
    given = {"includeHeaders": True, "minPartitions": 4, "kafka.security.protocol": "SSL"}
    made = wanted(HERE, "clicks", read_committed=False, max_per_batch=500, options=given)
    options = made.spark_options()
    assert options["includeHeaders"] == "true"
    assert options["minPartitions"] == "4"
    assert options["maxOffsetsPerTrigger"] == "500"
    assert options["kafka.isolation.level"] == "read_uncommitted"
    assert made.client_options() == {"bootstrap.servers": HERE, "security.protocol": "SSL"}


@pytest.mark.parametrize("value", ["false", False, "FALSE"])
def test_data_loss_is_passed_over_only_if_the_user_says_so(value: object) -> None:
    assert wanted(HERE, "clicks").fails_on_data_loss
    assert not wanted(HERE, "clicks", options={"failondataloss": value}).fails_on_data_loss


def test_everything_that_is_wrong_is_told_at_once() -> None:
    said = refused(
        "broker",
        "a/b",
        pattern="x.*",
        start="erliest",
        end=datetime(2026, 1, 2),
        read_committed="yes",
        max_per_batch=0,
        options={"subscribe": "x", "includeHeader": True},
    )
    for part in (
        "servers: 'broker' is not like 'host:9092'",
        "topics, pattern: give one of them, not both",
        "topics: 'a/b' cannot be the name of a topic",
        "start: give 'earliest' or 'latest', a datetime",
        "end: datetime.datetime(2026, 1, 2, 0, 0) has no time zone",
        "read_committed: give True or False, not 'yes'",
        "max_per_batch: give a number of records above zero, not 0",
        "options: subscribe cannot be set here: give topics",
        "options: there is no includeHeader; did you mean includeHeaders?",
    ):
        assert part in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"servers": ""}, "servers: there is none"),
        ({"topics": None}, "topics, pattern: give one of them"),
        ({"topics": []}, "topics: there is none"),
        ({"topics": ["a", "a"]}, "topics: 'a' is there twice"),
        ({"topics": None, "pattern": " "}, "pattern: ' ' is not a regular expression"),
        ({"start": -1}, "start: -1 milliseconds are before 1970"),
        ({"start": True}, "start: give 'earliest' or 'latest'"),
        ({"start": {}}, "start: no topic has an offset"),
        ({"start": {"b": {0: 1}}}, "start: offsets are for b, and topics are a"),
        ({"start": {"a": {}}}, "start: 'a' has no {partition: offset}"),
        ({"start": {"a": {"0": 1}}}, "start: '0' of a is not the number of a partition"),
        ({"start": {"a": {0: -1}}}, "start: the offset of a-0 is -1; give a number from 0"),
        ({"end": "earliest"}, "end: give 'latest', a datetime"),
        ({"end": {"a": {0: "earliest"}}}, "end: the offset of a-0 is 'earliest'"),
        ({"max_per_batch": True}, "max_per_batch: give a number"),
        ({"options": {"security.protocol": "SSL"}}, "write kafka.security.protocol"),
        ({"options": {"kafka.isolation.level": "x"}}, "give read_committed"),
        ({"options": {"kafka.group.id": None}}, "must be a text"),
    ],
)
def test_what_cannot_be_is_named(options: dict[str, Any], said: str) -> None:
    arguments = {"servers": HERE, "topics": "a", **options}
    assert said in refused(**arguments)


def test_passwords_are_not_shown() -> None:
    source = hf.sources.kafka(HERE, "a", options={"kafka.sasl.jaas.config": "secret"})
    assert "secret" not in repr(source) + repr(source._wanted)


def test_only_a_source_with_an_end_is_bounded() -> None:
    assert hf.sources.kafka(HERE, "a", end="latest").bounded is True
    assert hf.sources.kafka(HERE, "a").bounded is None


# Offsets


def test_offsets_are_read_and_written_as_spark_does() -> None:
    text = '{"a":{"0":5,"10":7},"b":{"2":0}}'
    assert decode_offsets(text) == at(a0=5, a10=7, b2=0)
    assert encode_offsets(at(b2=0, a10=7, a0=5)) == text


@pytest.mark.parametrize(
    "other",
    ['{"row": 5}', '{"channel":"a","segment":3}', '{"logOffset":1}', "17", "{}", "x", None],
)
def test_offsets_of_other_sources_are_not_taken_for_kafkas(other: str | None) -> None:
    assert decode_offsets(other) is None


def test_a_batch_is_held_at_the_end_of_each_partition() -> None:
    end = at(a0=10, a1=20)
    assert held_at(at(a0=5, a1=30), at(a0=5, a1=7), end) == at(a0=5, a1=20)


def test_a_partition_that_came_later_is_left_out() -> None:
    assert held_at(at(a0=5, a1=3), at(a0=0), at(a0=10)) == at(a0=5)


def test_a_partition_that_starts_beyond_its_end_stays_where_it_is() -> None:
    assert held_at(at(a0=30), at(a0=25), at(a0=10)) == at(a0=25)
    assert has_reached(at(a0=25), at(a0=10))


def test_the_end_is_reached_when_every_partition_has_reached_it() -> None:
    end = at(a0=10, a1=20)
    assert has_reached(at(a0=10, a1=20), end)
    assert not has_reached(at(a0=10, a1=19), end)
    assert not has_reached(at(a0=10), end)


# Lag


def report(end: object, latest: object) -> dict[str, Any]:
    return {"description": "KafkaV2[Subscribe[a]]", "endOffset": end, "latestOffset": latest}


def test_lag_is_counted_per_partition_and_in_total() -> None:
    told = report({"a": {"0": 5, "1": 8}}, {"a": {"0": 12, "1": 8}})
    assert partition_lags(told) == (PartitionLag("a", 0, 5, 12, 7), PartitionLag("a", 1, 8, 8, 0))
    assert source_lag(told) == 7


def test_a_new_partition_lags_with_all_it_has() -> None:
    assert source_lag(report({"a": {"0": 5}}, {"a": {"0": 5, "1": 30}})) == 30


def test_one_that_was_read_beyond_what_spark_knew_does_not_lag() -> None:
    assert source_lag(report({"a": {"0": 9, "1": 5}}, {"a": {"0": 7, "1": 6}})) == 1


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [('{"row": 5}', '{"row": 9}', 4), ("3", "10", 7), (None, {"a": {"0": 1}}, 0), ("x", "y", 0)],
)
def test_other_sources_lag_in_their_own_numbers_and_have_no_partitions(
    end: object, latest: object, lag: int
) -> None:
    assert source_lag(report(end, latest)) == lag
    assert partition_lags(report(end, latest)) == ()


# Notes beside the query log


def note(log: Path, notes: Notes, position: int = 0, number: int = 1) -> None:
    write(open_storage(log), Found(notes, number, position))


def test_notes_are_read_back_as_they_were() -> None:
    notes = Notes("clicks", {"a": "id1"}, "latest", at(a0=5, a1=0))
    assert decode_notes(encode_notes(notes), "x") == notes
    assert decode_notes(encode_notes(Notes("clicks")), "x") == Notes("clicks")


def test_damaged_notes_and_those_of_another_release_are_refused() -> None:
    with pytest.raises(DamagedFile):
        decode_notes(b'{"version": 1}', "x")
    with pytest.raises(DamagedFile):
        decode_notes(b"{", "x")
    later = {**json.loads(encode_notes(Notes("clicks"))), "version": 2}
    with pytest.raises(UnknownFormat):
        decode_notes(json.dumps(later).encode(), "x")


def test_the_newest_notes_of_the_right_source_count(tmp_path: Path) -> None:
    note(tmp_path, Notes("clicks", {"a": "1"}))
    note(tmp_path, Notes("clicks", {"a": "1", "b": "2"}), number=2)
    note(tmp_path, Notes("orders", {"c": "3"}), position=1, number=3)
    (tmp_path / "sources" / "0" / "0").write_text("v1\nof Spark's own")
    found = read_notes(open_storage(tmp_path), "clicks")
    assert [(each.number, each.position) for each in found] == [(1, 0), (2, 0)]
    assert found[-1].notes.topics == {"a": "1", "b": "2"}
    assert read_notes(open_storage(tmp_path), "others") == []


def test_notes_are_never_changed(tmp_path: Path) -> None:
    note(tmp_path, Notes("clicks"))
    with pytest.raises(AlreadyPublished):
        note(tmp_path, Notes("clicks", {"a": "1"}))


# Whether a query has come to the end


def reading(log: Path, end: Any = "latest", uid: str = "clicks") -> KafkaReading:
    return KafkaSource(wanted(HERE, "a", end=end)).for_query(uid, str(log))


def test_a_query_that_has_noted_its_end_knows_it_after_a_restart(tmp_path: Path) -> None:
    note(tmp_path, Notes("clicks", {}, "latest", at(a0=5)))
    assert reading(tmp_path).has_read_all(['{"a":{"0":5}}'])
    assert not reading(tmp_path).has_read_all(['{"a":{"0":4}}'])
    assert not reading(tmp_path).has_read_all([None])


def test_without_notes_nothing_is_at_its_end(tmp_path: Path) -> None:
    assert not reading(tmp_path).has_read_all(['{"a":{"0":5}}'])


def test_two_sources_of_one_topic_do_not_take_each_others_offsets(tmp_path: Path) -> None:
    note(tmp_path, Notes("early", {}, "latest", at(a0=5)), position=0)
    note(tmp_path, Notes("clicks", {}, "latest", at(a0=9)), position=1)
    offsets = ['{"a":{"0":3}}', '{"a":{"0":9}}']
    assert reading(tmp_path).has_read_all(offsets)
    assert not reading(tmp_path, uid="early").has_read_all(offsets)


def test_a_frame_that_is_used_twice_is_read_when_both_are(tmp_path: Path) -> None:
    notes = Notes("clicks", {}, "latest", at(a0=5))
    note(tmp_path, notes, position=0)
    note(tmp_path, notes, position=1, number=2)
    assert not reading(tmp_path).has_read_all(['{"a":{"0":5}}', '{"a":{"0":4}}'])
    assert reading(tmp_path).has_read_all(['{"a":{"0":5}}', '{"a":{"0":5}}'])


def test_another_end_in_the_job_makes_the_noted_one_void(tmp_path: Path) -> None:
    note(tmp_path, Notes("clicks", {}, "latest", at(a0=5)))
    assert not reading(tmp_path, end={"a": {0: 9}}).has_read_all(['{"a":{"0":5}}'])


# Topics that come later


def by_pattern(log: Path, **options: Any) -> KafkaReading:
    return KafkaSource(wanted(HERE, pattern=".*", **options)).for_query("clicks", str(log))


def test_a_topic_that_came_later_is_noted_and_known_when_it_is_replaced(tmp_path: Path) -> None:
    note(tmp_path, Notes("clicks", {"a": "1"}))
    running = by_pattern(tmp_path)
    running.note(Look({"a": "1"}))
    assert len(read_notes(open_storage(tmp_path), "clicks")) == 1, "nothing is new"
    running.note(Look({"a": "1", "b": "2"}))
    running.note(Look({"a": "1", "b": "2"}))
    assert len(read_notes(open_storage(tmp_path), "clicks")) == 2
    for reading in (running, by_pattern(tmp_path)):  # at once, and after a restart
        with pytest.raises(KafkaDataLost, match="topic b was deleted and created again"):
            reading.note(Look({"a": "1", "b": "3"}))


def test_a_frame_that_is_used_twice_is_noted_twice(tmp_path: Path) -> None:
    note(tmp_path, Notes("clicks", {"a": "1"}), position=0)
    note(tmp_path, Notes("clicks", {"a": "1"}), position=2, number=2)
    by_pattern(tmp_path).note(Look({"a": "1", "b": "2"}))
    found = read_notes(open_storage(tmp_path), "clicks")
    assert [(f.number, f.position) for f in found] == [(1, 0), (2, 2), (3, 0), (4, 2)]


def test_what_the_query_has_noted_meanwhile_is_kept(tmp_path: Path) -> None:
    note(tmp_path, Notes("clicks", {"a": "1"}))
    running = by_pattern(tmp_path)
    note(tmp_path, Notes("clicks", {"a": "1", "b": "2"}), number=2)
    running.note(Look({"a": "1", "b": "2", "c": "3"}))
    assert by_pattern(tmp_path)._known().topics == {"a": "1", "b": "2", "c": "3"}


def test_topics_that_are_not_read_because_of_the_end_are_not_noted(tmp_path: Path) -> None:
    note(tmp_path, Notes("clicks", {"a": "1"}, "latest", at(a0=5)))
    by_pattern(tmp_path, end="latest").note(Look({"a": "1", "b": "2"}))
    assert len(read_notes(open_storage(tmp_path), "clicks")) == 1


# Topics that are not what they were


def test_the_same_topics_are_not_lost() -> None:
    assert lost_topics({"a": "1"}, {"a": "1", "b": "2"}) == []


def test_a_topic_that_is_gone_or_another_is_named_with_its_ids() -> None:
    gone, replaced = lost_topics({"a": "1", "b": "2"}, {"b": "3"})
    assert gone == "topic a is gone"
    assert "topic b was deleted and created again" in replaced
    assert "2" in replaced
    assert "3" in replaced


def test_a_broker_without_ids_proves_nothing() -> None:
    none = "AAAAAAAAAAAAAAAAAAAAAA"
    assert lost_topics({"a": none}, {"a": "1"}) == lost_topics({"a": "1"}, {"a": none}) == []
