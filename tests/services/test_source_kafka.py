"""Topics read by Spark's own connector: from where, up to where, and what is said of lost rows."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import UsageError
from holdfast.protocol.lag import PartitionLag
from holdfast.server.view import look
from tests.services.kafka_broker import KafkaBroker
from tests.services.kafka_jobs import Failed, Place, Shelf, job_of
from tests.services.kafka_writing import (
    add_partitions,
    create_topic,
    delete_topic,
    remove_records,
    send,
    send_in_transaction,
)
from tests.spark.jobs import passed
from tests.spark.taps import until


@pytest.fixture
def place(kafka_connector: None, kafka: KafkaBroker, tmp_path: Path) -> Place:
    return Place(kafka, tmp_path)


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """One partition with the values 0 to 9."""
    name = kafka.new_topic(1)
    send(kafka, name, range(10))
    return name


# Where it starts


def test_a_job_starts_at_the_first_at_a_time_or_at_given_offsets(place: Place) -> None:
    topic = place.broker.new_topic(2)
    send(place.broker, topic, range(5), time=1_000)
    send(place.broker, topic, range(5, 10), time=2_000)
    send(place.broker, topic, range(10, 15), partition=1, time=3_000)
    starts: dict[str, tuple[Any, range]] = {
        "first": ("earliest", range(15)),
        "time": (datetime.fromtimestamp(1.5, UTC), range(5, 15)),
        "late": (2_500, range(10, 15)),
        "given": ({topic: {0: 7, 1: "latest"}}, range(7, 10)),
    }
    shelves = {uid: Shelf() for uid in starts}
    job = hf.Job("job")
    for uid, (start, _) in starts.items():
        job.source(f"from-{uid}", place.source(topic, start=start))
        job.region(uid, reads=f"from-{uid}")(passed)
        job.sink(f"shelf-{uid}", uid, hf.sinks.foreach_batch(shelves[uid]))
    expected = {uid: list(rows) for uid, (_, rows) in starts.items()}
    with place.run(job) as live:
        live.until(lambda: {uid: shelf.values for uid, shelf in shelves.items()} == expected)


def test_a_job_that_starts_at_the_newest_reads_what_comes_then(place: Place, topic: str) -> None:
    shelf = Shelf()
    with place.run(job_of(shelf, place.source(topic, start="latest"))) as live:
        live.until(lambda: live.committed("rows") >= 0)
        send(place.broker, topic, range(10, 15))
        live.until(lambda: shelf.values == list(range(10, 15)))


def test_a_job_that_goes_on_does_so_where_it_was_whatever_start_says(
    place: Place, topic: str
) -> None:
    shelf = Shelf()
    place.run_until(job_of(shelf, place.source(topic)), shelf, range(10))
    send(place.broker, topic, range(10, 20))
    place.run_until(job_of(shelf, place.source(topic, start="latest")), shelf, range(20))


def test_topics_that_come_later_and_match_the_pattern_are_read(place: Place, topic: str) -> None:
    shelf = Shelf()
    wanted = place.source(
        None, pattern=f"{topic}(-more)?", options={"kafka.metadata.max.age.ms": 200}
    )
    with place.run(job_of(shelf, wanted)) as live:
        live.until(lambda: shelf.values == list(range(10)))
        create_topic(place.broker, f"{topic}-more")
        send(place.broker, f"{topic}-more", range(10, 15))
        live.until(lambda: shelf.values == list(range(15)))


def test_start_offsets_that_do_not_name_every_partition_are_refused(place: Place) -> None:
    topic = place.broker.new_topic(2)
    ended = place.fail(job_of(Shelf(), place.source(topic, start={topic: {0: 1}})))
    assert ended.last.kind == "NonRecoverable"
    assert "every partition" in ended.last.why


def test_a_topic_that_is_not_there_is_refused_before_anything_runs(place: Place) -> None:
    job = job_of(Shelf(), place.source("no-such-topic"))
    with pytest.raises(UsageError, match="there is no topic no-such-topic"), place.run(job):
        pass


# What is read


@pytest.mark.parametrize(("read_committed", "seen"), [(True, range(10, 15)), (False, range(20))])
def test_rows_of_aborted_transactions_are_hidden_unless_asked_for(
    place: Place, read_committed: bool, seen: range
) -> None:
    topic = place.broker.new_topic(1)
    send_in_transaction(place.broker, topic, range(10), commit=False)
    send_in_transaction(place.broker, topic, range(10, 15), commit=True)
    send_in_transaction(place.broker, topic, range(15, 20), commit=False)
    shelf = Shelf()
    place.run_to_end(
        job_of(shelf, place.source(topic, read_committed=read_committed, end="latest"))
    )
    assert shelf.values == list(seen)


def test_a_batch_has_no_more_than_it_may(place: Place, topic: str) -> None:
    shelf = Shelf()
    place.run_until(job_of(shelf, place.source(topic, max_per_batch=4)), shelf, range(10))
    assert [len(values) for values in shelf.batches.values()] == [4, 4, 2]


def test_a_partition_that_is_added_is_read_from_its_first_record(place: Place, topic: str) -> None:
    shelf = Shelf()
    wanted = place.source(topic, start="latest", options={"kafka.metadata.max.age.ms": 200})
    with place.run(job_of(shelf, wanted)) as live:
        live.until(lambda: live.committed("rows") >= 0)
        add_partitions(place.broker, topic, 2)
        send(place.broker, topic, range(10, 15), partition=1)
        live.until(lambda: shelf.values == list(range(10, 15)))


# Where it ends


def test_a_bounded_job_reads_up_to_its_end_and_not_further(place: Place, topic: str) -> None:
    shelf = Shelf()
    shelf.hold()
    with place.run(job_of(shelf, place.source(topic, end="latest", max_per_batch=3))) as live:
        live.until(lambda: live.running.regions["rows"].query is not None)
        send(place.broker, topic, range(10, 20))
        add_partitions(place.broker, topic, 2)
        send(place.broker, topic, range(20, 25), partition=1)
        shelf.let()
        assert live.until_over() == "FINISHED"
    assert shelf.values == list(range(10))


def test_ends_may_be_given_as_offsets_or_as_a_time(place: Place) -> None:
    topic = place.broker.new_topic(2)
    send(place.broker, topic, range(10), time=1_000)
    send(place.broker, topic, range(10, 15), time=5_000)
    send(place.broker, topic, range(20, 25), partition=1, time=2_000)
    ends: dict[str, Any] = {"given": {topic: {0: 3, 1: "latest"}}, "time": 3_000}
    shelves = {uid: Shelf() for uid in ends}
    job = hf.Job("job")
    for uid, end in ends.items():
        job.source(f"to-{uid}", place.source(topic, end=end))
        job.region(uid, reads=f"to-{uid}")(passed)
        job.sink(f"shelf-{uid}", uid, hf.sinks.foreach_batch(shelves[uid]))
    place.run_to_end(job)
    assert shelves["given"].values == [*range(3), *range(20, 25)]
    assert shelves["time"].values == [*range(10), *range(20, 25)]


def test_an_end_that_is_not_there_yet_is_waited_for(place: Place, topic: str) -> None:
    shelf = Shelf()
    with place.run(job_of(shelf, place.source(topic, end={topic: {0: 15}}))) as live:
        live.until(lambda: shelf.values == list(range(10)))
        send(place.broker, topic, range(10, 20))
        assert live.until_over() == "FINISHED"
    assert shelf.values == list(range(15))


def test_the_end_stays_what_it_was_over_restarts_and_in_a_checkpoint(
    place: Place, topic: str
) -> None:
    shelf = Shelf()
    job = job_of(shelf, place.source(topic, end="latest", max_per_batch=4))
    with place.run(job) as live:
        live.until(lambda: live.committed("rows") == 0)
        shelf.hold()
        kept = live.path(live.checkpoint())
        send(place.broker, topic, range(10, 20))
        shelf.let()
        live.running.suspend()
    elsewhere = place.folder / "elsewhere"
    shutil.copytree(Path(kept).parent, elsewhere)
    place.run_to_end(job)
    assert shelf.values == list(range(10))
    restored = Shelf()
    fresh = Place(place.broker, place.folder / "fresh")
    again = job_of(restored, place.source(topic, end="latest", max_per_batch=4))
    fresh.run_to_end(again, restore=str(elsewhere / Path(kept).name))
    assert sorted({*restored.values, *range(4)}) == list(range(10))


def test_a_query_that_had_read_everything_ends_when_it_is_started_again(
    place: Place, topic: str
) -> None:
    shelf = Shelf()
    job = job_of(
        shelf, place.source(topic, end={topic: {0: 10}}), place.source(topic, end="latest")
    )
    with place.run(job) as live:
        live.until(lambda: len(shelf.values) == 20)
    place.run_to_end(job)
    assert len(shelf.values) == 20


def test_ends_that_do_not_name_every_partition_are_refused(place: Place) -> None:
    topic = place.broker.new_topic(2)
    job = job_of(Shelf(), place.source(topic, end={topic: {0: 1, 2: 5}}))
    with pytest.raises(UsageError, match="every partition"), place.run(job):
        pass


def test_trigger_available_now_ends_a_source_without_an_end(place: Place, topic: str) -> None:
    shelf = Shelf()
    job = job_of(shelf, place.source(topic, max_per_batch=4))
    place.run_to_end(job, **{"holdfast.trigger": "available-now"})
    assert shelf.values == list(range(10))


# What is lost


@pytest.fixture(params=["ours", "plain"])
def source(request: pytest.FixtureRequest, place: Place) -> Any:
    """Whoever opens Kafka: it fails in the same way."""
    return place.source if request.param == "ours" else place.plain


def was_lost(ended: Failed) -> str:
    """Why, of a job that failed because of lost rows, and not before it had tried once more."""
    assert [record.kind for record in ended.records] == ["PartitionDataMissing"] * 2
    assert [record.delay is None for record in ended.records] == [False, True]
    assert all(record.source != "checkpoint" for record in ended.records)
    assert "failOnDataLoss" in ended.error
    return ended.last.why


def test_records_that_retention_removed_unread_are_named_and_end_the_job(
    place: Place, topic: str, source: Any
) -> None:
    shelf = Shelf()
    job = job_of(shelf, source(topic))
    place.run_until(job, shelf, range(10))
    send(place.broker, topic, range(10, 30))
    remove_records(place.broker, topic, before=20)
    why = was_lost(place.fail(job))
    assert f"{topic}-0" in why
    assert "offset 10 to" in why
    assert shelf.values == list(range(10))


def test_a_topic_that_was_made_anew_with_fewer_records_is_named(
    place: Place, topic: str, source: Any
) -> None:
    shelf = Shelf()
    job = job_of(shelf, source(topic))
    place.run_until(job, shelf, range(10))
    delete_topic(place.broker, topic)
    create_topic(place.broker, topic)
    send(place.broker, topic, range(100, 103))
    why = was_lost(place.fail(job))
    assert topic in why
    assert "deleted and created again" in why
    assert shelf.values == list(range(10))


def test_a_topic_that_was_made_anew_with_more_records_is_no_less_another(
    place: Place, topic: str
) -> None:
    shelf = Shelf()
    job = job_of(shelf, place.source(topic))
    place.run_until(job, shelf, range(10))
    delete_topic(place.broker, topic)
    create_topic(place.broker, topic)
    send(place.broker, topic, range(100, 150))
    assert "deleted and created again" in was_lost(place.fail(job))
    assert shelf.values == list(range(10))


def test_a_topic_that_is_made_anew_under_a_running_job_is_noticed(
    place: Place, topic: str, source: Any
) -> None:
    shelf = Shelf()
    job = job_of(shelf, source(topic))
    with place.run(job) as live:
        live.until(lambda: shelf.values == list(range(10)))
        delete_topic(place.broker, topic)
        create_topic(place.broker, topic)
        until(lambda: live.running.state.is_over, live.describe)
        assert live.state == "FAILED"
        assert topic in str(live.running.failure)
        # Between the two there is none, which may pass.
        assert live.running.failures.all()[-1].kind == "PartitionDataMissing"


def test_who_says_so_goes_on_without_what_is_lost(place: Place, topic: str) -> None:
    shelf = Shelf()
    place.run_until(job_of(shelf, place.source(topic)), shelf, range(10))
    send(place.broker, topic, range(10, 30))
    remove_records(place.broker, topic, before=20)
    careless = place.source(topic, options={"failOnDataLoss": False})
    with place.run(job_of(shelf, careless)) as live:
        live.until(lambda: shelf.values == [*range(10), *range(20, 30)])


# How far it is behind


def test_lag_is_shown_in_total_and_of_every_partition(place: Place, source: Any) -> None:
    topic = place.broker.new_topic(2)
    send(place.broker, topic, range(10))
    send(place.broker, topic, range(10, 40), partition=1)
    shelf = Shelf()
    options: dict[str, Any] = (
        {"max_per_batch": 4} if source == place.source else {"maxOffsetsPerTrigger": "4"}
    )
    with place.run(job_of(shelf, source(topic, **options))) as live:
        live.until(lambda: look(live.running).regions[0].lag > 0)
        shelf.hold()
        region = look(live.running).regions[0]
        first, second = region.partitions
        assert (first.topic, first.partition, first.newest) == (topic, 0, 10)
        assert (second.topic, second.partition, second.newest) == (topic, 1, 30)
        assert region.lag == first.behind + second.behind == 40 - first.read - second.read
        shelf.let()
        live.until(lambda: look(live.running).regions[0].lag == 0)
        assert look(live.running).regions[0].partitions == (
            PartitionLag(topic, 0, 10, 10, 0),
            PartitionLag(topic, 1, 30, 30, 0),
        )
