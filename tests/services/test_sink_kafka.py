"""Rows of epochs into Kafka: once, whole, in order, as they were; and what is refused."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import holdfast as hf
from holdfast.errors import HoldfastError, UsageError
from holdfast.protocol.sent import Owner, SentMarker
from holdfast.sinks.interface import Epoch, Handle
from holdfast.sinks.kafka.client import Cluster, KafkaFenced, KafkaUnavailable
from holdfast.sinks.kafka.markers import Markers
from holdfast.sinks.kafka.rows import record_of
from holdfast.sinks.kafka.sending import PartOfEpoch, send_part
from holdfast.sinks.kafka.sink import KafkaSink, MarkersLost, kafka
from holdfast.sinks.kafka.writers import Writer
from holdfast.sinks.write_ahead import Marker, WriteAheadSink
from holdfast.testing.sinks import Row, WriteAheadContract
from tests.services.epochs import JOB, SINK, epoch
from tests.services.kafka_broker import KafkaBroker
from tests.services.kafka_reading import Arrivals, committed, everything, in_time, settle, values
from tests.services.processes import wait_until

OTHER = "f" * 32


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    return kafka.new_topic(3)


@dataclass(frozen=True)
class Home:
    """A topic, a sink's names that no other test uses, and a folder for staged rows."""

    spark: SparkSession
    broker: KafkaBroker
    topic: str
    folder: Path

    @property
    def prefix(self) -> str:
        return f"test-{self.topic}"

    def sink(self, **arguments: Any) -> KafkaSink:
        """As the runtime has it after the start of a job."""
        chosen = {"transactional_id_prefix": self.prefix, **arguments}
        made = kafka(self.broker.servers, chosen.pop("topic", self.topic), **chosen)
        assert isinstance(made, KafkaSink)
        made.claim(JOB, SINK)
        return made

    def numbers(self, first: int, count: int, files: int = 1) -> Any:
        """Rows whose key is the last digit, and whose value the number."""
        rows = self.spark.range(first, first + count, 1, files)
        return rows.selectExpr("CAST(id % 10 AS STRING) AS key", "CAST(id AS STRING) AS value")

    def epoch(self, checkpoint: int, *batches: Any) -> Epoch:
        numbered = {100 * checkpoint + at: rows for at, rows in enumerate(batches)}
        return epoch(self.folder, numbered, checkpoint)

    def committed(self, sink: KafkaSink, checkpoint: int, *batches: Any) -> Handle:
        rows = self.epoch(checkpoint, *batches)
        handle = dict(json.loads(json.dumps(dict(sink.pre_commit(rows)))))
        sink.commit(rows, handle)
        settle(self.broker.servers, self.topic)
        return handle

    def values(self) -> list[int]:
        settle(self.broker.servers, self.topic)
        return sorted(int(text) for text in values(self.broker.servers, self.topic))


@pytest.fixture
def home(spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path) -> Home:
    return Home(spark, kafka, topic, tmp_path)


# The rules of write-ahead sinks


class Task(WriteAheadSink):
    """What the sink does in a task, as the suite calls it."""

    def __init__(self, servers: str, topic: str) -> None:
        self._cluster = Cluster(servers)
        self._topic = topic

    def write(self, marker: Marker, batches: Iterator[pa.RecordBatch]) -> None:
        base = f"{self._topic}-{marker.job_id[:2]}-{marker.sink}"
        Markers(self._cluster, base).ensure(1)
        owner = Owner(marker.job_id, marker.sink)
        part = PartOfEpoch(base, 0, owner, owner, marker.checkpoint)
        send_part(self._cluster, part, batches, self._topic)


class TestContract(WriteAheadContract):
    stride = 25

    @pytest.fixture(autouse=True)
    def store(self, kafka: KafkaBroker, topic: str) -> None:
        self.broker, self.topic = kafka, topic

    def make_sink(self) -> WriteAheadSink:
        return Task(self.broker.servers, self.topic)

    def batch(self, rows: Any) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {"key": [str(number) for number, _ in rows], "value": [json.dumps(r) for r in rows]}
        )

    def visible(self) -> Iterable[Row]:
        return [tuple(json.loads(text)) for text in values(self.broker.servers, self.topic)]

    def test_3_an_epoch_that_was_left_out_by_hand_is_not_written_later(self) -> None:
        pytest.skip("an epoch for Kafka cannot be left out")

    # Kafka shows rows moments after their commit has returned.

    def sees(self, expected: Iterable[Row]) -> None:
        rows = list(expected)
        in_time(lambda: WriteAheadContract.sees(self, rows))

    def sees_all_or_none(self, rows: Sequence[Row], besides: Sequence[Row]) -> None:
        allowed = Counter(besides), Counter([*besides, *rows])

        def check() -> None:
            assert Counter(self.visible()) in allowed

        in_time(check)


# Records


def test_records_are_what_the_rows_say(home: Home) -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC)
    schema = (
        "key string, value binary, headers array<struct<key:string,value:binary>>, "
        "partition int, timestamp timestamp, offset bigint"
    )
    rows = home.spark.createDataFrame(
        [
            ("ü", b"\x00\xff", [("a", b"1"), ("a", None)], 2, moment, 7),
            (None, b"", [], 0, moment, 8),
            ("gone", None, None, 1, moment, 9),
        ],
        schema,
    ).coalesce(1)
    home.committed(home.sink(), 1, rows)
    found = {record.partition: record for record in committed(home.broker.servers, home.topic)}
    assert (found[2].key, found[2].value) == ("ü".encode(), b"\x00\xff")
    assert found[2].headers == [("a", b"1"), ("a", None)]
    assert {record.timestamp for record in found.values()} == {int(moment.timestamp() * 1000)}
    assert (found[0].key, found[0].value) == (None, b"")
    assert (found[1].key, found[1].value) == (b"gone", None)


def test_a_key_goes_to_the_partition_where_javas_producers_put_it(home: Home) -> None:
    """Known values of murmur2 in Kafka's own client, for three partitions."""
    keys = [b"21", b"foobar", b"abc", b"a-little-bit-long-string"]
    rows = home.spark.createDataFrame([(key, b"x") for key in keys], "key binary, value binary")
    home.committed(home.sink(), 1, rows)
    found = {r.key: r.partition for r in committed(home.broker.servers, home.topic)}
    hashes = [-973932308, -790332482, 479470107, -985981536]
    assert found == {k: (h & 0x7FFFFFFF) % 3 for k, h in zip(keys, hashes, strict=True)}


def test_rows_name_their_topics(home: Home) -> None:
    other = home.broker.new_topic()
    rows = home.spark.createDataFrame(
        [(home.topic, "1"), (other, "2")], "topic string, value string"
    )
    home.committed(home.sink(topic=None), 1, rows)
    settle(home.broker.servers, other)
    assert values(home.broker.servers, home.topic) == ["1"]
    assert values(home.broker.servers, other) == ["2"]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_rows_of_a_key_come_in_the_order_of_batches_files_and_rows(
    home: Home, parallelism: int
) -> None:
    """Spark's own reader would take large files first."""
    sizes = [(0, 50, 2), (50, 3000, 3), (3050, 10, 1), (3060, 2000, 2)]
    sink = home.sink(parallelism=parallelism)
    home.committed(sink, 1, *(home.numbers(*size) for size in sizes))
    seen = committed(home.broker.servers, home.topic)
    assert Counter(int(r.value or b"") for r in seen) == Counter(range(5060))
    for key in {record.key for record in seen}:
        of_key = [int(r.value or b"") for r in seen if r.key == key]
        assert of_key == sorted(of_key)


# Once


def test_rows_appear_with_the_commit_and_committing_again_changes_nothing(home: Home) -> None:
    sink = home.sink()
    rows = home.epoch(1, home.numbers(0, 20), home.numbers(20, 10))
    handle = sink.pre_commit(rows)
    assert home.values() == []
    assert sink.inquire(handle) == [
        f"topic {home.topic} at {home.broker.servers}, transactional id {home.prefix}-{SINK}-0; "
        "not sent, the newest is checkpoint 0"
    ]
    sink.commit(rows, handle)
    sink.commit(rows, handle)
    home.sink().recover_and_commit(rows, handle)
    assert home.values() == list(range(30))
    assert sink.inquire(handle)[0].endswith("; sent")
    assert sink.pending(JOB, SINK) == ()


def test_an_epoch_without_rows_leaves_nothing(home: Home) -> None:
    sink = home.sink()
    home.committed(sink, 1, home.numbers(0, 0))
    home.committed(sink, 2, home.numbers(0, 5))
    assert home.values() == list(range(5))


def test_an_old_checkpoint_of_this_job_sends_nothing_and_new_ones_go_on(home: Home) -> None:
    sink = home.sink()
    rows = [home.epoch(n, home.numbers(10 * n, 10)) for n in (1, 2, 3)]
    handles = [sink.pre_commit(each) for each in rows]
    for each, handle in zip(rows, handles, strict=True):
        sink.commit(each, handle)
    restored = home.sink()
    restored.recover_and_commit(rows[0], handles[0])
    assert home.values() == list(range(10, 40))
    home.committed(restored, 4, home.numbers(20, 10))  # a new history reads them again
    assert Counter(home.values()) == Counter([*range(10, 40), *range(20, 30)])


def test_a_job_restored_under_another_id_sends_what_the_first_had_promised(home: Home) -> None:
    first = kafka(home.broker.servers, home.topic)
    assert isinstance(first, KafkaSink)
    first.claim(JOB, home.prefix)
    rows = [
        replace(home.epoch(n, home.numbers(10 * n, 10)), sink=home.prefix)  # nobody else has it
        for n in (1, 2)
    ]
    handles = [first.pre_commit(each) for each in rows]
    first.commit(rows[0], handles[0])
    second = kafka(home.broker.servers, home.topic)
    assert isinstance(second, KafkaSink)
    second.claim(OTHER, home.prefix)
    for each, handle in zip(rows, handles, strict=True):
        second.recover_and_commit(replace(each, job_id=OTHER), handle)
    assert home.values() == list(range(10, 30))
    first.commit(rows[1], handles[1])  # it still runs: nothing is sent twice, and it may go on
    assert home.values() == list(range(10, 30))


def test_the_number_of_tasks_may_change_between_epochs_and_before_a_commit(home: Home) -> None:
    expected: list[int] = []
    for checkpoint, parallelism in enumerate([1, 4, 2], 1):
        before = home.sink(parallelism=parallelism)
        rows = home.epoch(checkpoint, home.numbers(100 * checkpoint, 50, 2))
        handle = before.pre_commit(rows)
        after = home.sink(parallelism=5 - parallelism)
        after.recover_and_commit(rows, handle)
        before.commit(rows, handle)
        expected += range(100 * checkpoint, 100 * checkpoint + 50)
        assert home.values() == expected
    ids = [name for name in home.broker.transactions() if name.startswith(home.prefix)]
    assert sorted(ids) == [f"{home.prefix}-{SINK}-{part}" for part in range(4)]


# Others who write


def test_a_writer_that_was_declared_dead_cannot_commit(home: Home) -> None:
    home.sink()
    cluster, base = Cluster(home.broker.servers), f"{home.prefix}-{SINK}"
    zombie = Writer(cluster, base, 0)
    zombie.fence()
    zombie.begin()
    zombie.send([record_of(home.topic, b"-1")])
    zombie.arrive()
    successor = home.sink()
    home.committed(successor, 1, home.numbers(0, 5))
    with pytest.raises(KafkaFenced, match="taken this one's place"):
        zombie.commit()
    assert home.values() == list(range(5))
    assert b"-1" in {r.value for r in everything(home.broker.servers, home.topic)}


def test_a_writer_whose_place_was_taken_is_told_so_whatever_it_does_next(
    kafka: KafkaBroker, topic: str
) -> None:
    cluster = Cluster(kafka.servers)
    zombie, successor = Writer(cluster, topic, 0), Writer(cluster, topic, 0)
    zombie.fence()
    zombie.begin()
    successor.fence()

    def go_on() -> None:
        zombie.send([((topic, b"x"), {})])
        zombie.arrive()

    for _ in range(2):  # the client says why only the first time
        with pytest.raises(KafkaFenced, match="taken this one's place"):
            go_on()


def test_a_dead_runner_that_comes_back_and_commits_the_same_epoch_sends_nothing(home: Home) -> None:
    zombie = home.sink()
    rows = home.epoch(1, home.numbers(0, 5))
    handle = zombie.pre_commit(rows)
    successor = home.sink()
    successor.recover_and_commit(rows, handle)
    home.committed(successor, 2, home.numbers(5, 5))
    zombie.commit(rows, handle)
    home.committed(successor, 3, home.numbers(10, 5))
    assert home.values() == list(range(15))


def test_the_names_of_another_job_are_refused_until_they_are_taken_over(home: Home) -> None:
    theirs = home.sink(parallelism=2)
    arguments: dict[str, Any] = {"transactional_id_prefix": home.prefix}
    ours = kafka(home.broker.servers, home.topic, **arguments)
    assert isinstance(ours, KafkaSink)
    with pytest.raises(UsageError, match=f"belong to job {JOB}(?s:.*)take_over"):
        ours.claim(OTHER, SINK)
    home.committed(theirs, 1, home.numbers(0, 5))  # they have not noticed
    rows = home.epoch(2, home.numbers(5, 5))
    handle = theirs.pre_commit(rows)
    heir = kafka(home.broker.servers, home.topic, take_over=JOB, parallelism=2, **arguments)
    assert isinstance(heir, KafkaSink)
    heir.claim(OTHER, SINK)
    with pytest.raises(Exception, match="another one has taken over"):
        theirs.commit(rows, handle)
    heir.recover_and_commit(replace(rows, job_id=OTHER), handle)
    elsewhere = replace(home, folder=home.folder / "heir")
    own = replace(elsewhere.epoch(1, home.numbers(10, 5)), job_id=OTHER)
    heir.commit(own, heir.pre_commit(own))
    assert home.values() == list(range(15))
    theirs_again = kafka(home.broker.servers, home.topic, take_over=OTHER, **arguments)
    assert isinstance(theirs_again, KafkaSink)
    theirs_again.claim(JOB, SINK)
    theirs_again.recover_and_commit(rows, handle)
    assert home.values() == list(range(15)), "who comes back knows what it had sent"


def test_one_object_may_be_several_sinks_and_each_sends_its_own_rows(home: Home) -> None:
    sink = home.sink()
    sink.claim(JOB, "other")
    rows = [home.epoch(1, home.numbers(0, 5)), home.epoch(2, home.numbers(5, 5))]
    second = replace(rows[1], sink="other", checkpoint=1)
    handles = [sink.pre_commit(rows[0]), sink.pre_commit(second)]
    sink.commit(rows[0], handles[0])
    sink.commit(second, handles[1])
    assert home.values() == list(range(10))
    assert [sink.inquire(handle)[0].endswith("; sent") for handle in handles] == [True, True]


def test_two_sinks_of_a_job_whose_prefix_and_uid_make_the_same_name_are_refused(
    home: Home,
) -> None:
    home.sink()
    left, _, right = home.prefix.partition("-")
    alike = kafka(home.broker.servers, home.topic, transactional_id_prefix=left)
    assert isinstance(alike, KafkaSink)
    with pytest.raises(UsageError, match=f"job {JOB}, sink {SINK}(?s:.*)uid"):
        alike.claim(JOB, f"{right}-{SINK}")


# A broker that dies


def test_a_broker_that_dies_before_during_and_after_a_commit_loses_and_repeats_nothing(
    home: Home,
) -> None:
    sink = home.sink(options={"socket.timeout.ms": 2000, "linger.ms": 0})
    first, second = home.epoch(1, home.numbers(0, 100)), home.epoch(2, home.numbers(100, 300_000))
    sink.check(home.spark, first.schema)
    home.broker.kill()
    handles = [sink.pre_commit(first), sink.pre_commit(second)]  # needs no broker
    with pytest.raises(HoldfastError):
        sink.commit(first, handles[0])
    assert "does not answer" in sink.inquire(handles[0])[0]
    home.broker.start()
    sink.commit(first, handles[0])
    with restarted_while_it_is_sent_rows(home), suppress(Exception):
        sink.commit(second, handles[1])
    for each, handle in zip((first, second), handles, strict=True):
        sink.recover_and_commit(each, handle)
    assert home.values() == list(range(300_100))


@contextmanager
def restarted_while_it_is_sent_rows(home: Home) -> Iterator[None]:
    """The broker: killed when it has the first row of what is sent here, and started again."""
    arrivals = Arrivals(home.broker.servers, home.topic)
    before = arrivals.end()

    def restart() -> None:
        wait_until(lambda: arrivals.end() > before, "rows are being sent")
        home.broker.kill()
        home.broker.start()

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        yield
    finally:
        thread.join()


class Deadly(Cluster):
    """Kills the process of a part that wants to commit, once. A file names the part.

    The broker has all its rows and its marker by then, and all parts before it are committed.
    """

    __slots__ = ()

    def transactional(self, transactional_id: str, failures: Any) -> Any:
        made = super().transactional(transactional_id, failures)
        base, _, part = transactional_id.rpartition("-")
        flag = Path(str(self.options["client.rack"]))
        if not flag.exists() or flag.read_text() != part:
            return made
        return Doomed(made, flag, lambda: self._has_sent(base, range(int(part))))

    def _has_sent(self, base: str, parts: Iterable[int]) -> bool:
        found = [Markers(Cluster(self.servers), base).last(part) for part in parts]
        return all(marker is not None and marker.checkpoint > 0 for marker in found)


class Doomed:
    """A producer."""

    def __init__(self, producer: Any, flag: Path, is_time: Callable[[], bool]) -> None:
        self._producer = producer
        self._flag = flag
        self._is_time = is_time

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, *_: Any) -> None:
        wait_until(self._is_time, "the parts before are sent")
        self._flag.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def die_while_it_sends(home: Home, sink: KafkaSink, part: int, rows: Epoch, handle: Handle) -> None:
    """Send an epoch whose task for that part dies before its commit."""
    flag = home.folder / "flag"
    flag.write_text(str(part))
    sink._cluster = Deadly(home.broker.servers, {"client.rack": str(flag)})
    with pytest.raises(Exception, match=r"(?i)worker"):
        sink.commit(rows, handle)
    assert not flag.exists(), "nobody has died"


def test_an_executors_python_that_dies_while_it_sends_is_replaced(home: Home) -> None:
    sink = home.sink()
    rows = home.epoch(1, home.numbers(0, 50))
    handle = sink.pre_commit(rows)
    die_while_it_sends(home, sink, 0, rows, handle)
    assert values(home.broker.servers, home.topic) == []
    assert len(everything(home.broker.servers, home.topic)) == 50
    sink.commit(rows, handle)
    assert home.values() == list(range(50))
    assert len(everything(home.broker.servers, home.topic)) == 100


def test_of_several_parts_those_that_were_not_sent_are_sent_after_a_crash(home: Home) -> None:
    sink = home.sink(parallelism=3)
    rows = home.epoch(1, home.numbers(0, 300))
    handle = sink.pre_commit(rows)
    die_while_it_sends(home, sink, 1, rows, handle)
    # What part 0 has committed may lie behind what part 1 has left open, and be hidden by it.
    assert len(values(home.broker.servers, home.topic)) < 300
    home.sink(parallelism=1).recover_and_commit(rows, handle)
    assert home.values() == list(range(300))
    home.committed(home.sink(parallelism=2), 2, home.numbers(300, 100))
    assert home.values() == list(range(400))


def test_a_transaction_that_takes_longer_than_it_may_is_aborted_and_sent_again(
    kafka: KafkaBroker,
) -> None:
    topic, owner = kafka.new_topic(), Owner(JOB, SINK)
    base, arrivals = f"test-{topic}", Arrivals(kafka.servers, topic)
    Markers(Cluster(kafka.servers), base).ensure(1)
    part = PartOfEpoch(base, 0, owner, owner, 1)
    rows = [pa.RecordBatch.from_pydict({"value": [text]}) for text in ("1", "2")]

    def slowly() -> Iterator[pa.RecordBatch]:
        yield rows[0]
        wait_until(lambda: arrivals.end() == 1, "the first row is there")
        wait_until(lambda: arrivals.end() == 2, "and behind it the broker's own end")
        yield rows[1]

    impatient = Cluster(kafka.servers, {"transaction.timeout.ms": 3000})
    with pytest.raises(KafkaFenced, match=r"transaction\.timeout\.ms"):
        send_part(impatient, part, slowly(), topic)
    assert values(kafka.servers, topic) == []
    send_part(Cluster(kafka.servers), part, rows, topic)
    settle(kafka.servers, topic)
    assert values(kafka.servers, topic) == ["1", "2"]


# What is refused


def test_a_start_is_refused_with_the_reason(home: Home) -> None:
    schema = home.numbers(0, 1).schema
    dead = kafka("127.0.0.1:1", "t", options={"socket.timeout.ms": 2000})
    with pytest.raises(KafkaUnavailable, match=r"127.0.0.1:1"):
        dead.check(home.spark, schema)
    with pytest.raises(UsageError, match=r"there is no topic nowhere(?s:.*)kafka-topics"):
        kafka(home.broker.servers, "nowhere").check(home.spark, schema)
    with pytest.raises(UsageError, match="no column 'value'"):
        kafka(home.broker.servers, home.topic).check(home.spark, home.spark.range(1).schema)
    with pytest.raises(UsageError, match=r"no.such.option"):
        kafka(home.broker.servers, home.topic, options={"no.such.option": 1}).check(
            home.spark, schema
        )


def test_a_transaction_that_may_last_longer_than_the_broker_allows_is_refused(home: Home) -> None:
    with pytest.raises(UsageError, match=r"transaction.max.timeout.ms"):
        home.sink(options={"transaction.timeout.ms": 1_000_000})


NEVER_SENT = {
    "max.message.bytes": "repeat('x', 2000000) AS value",
    "partitions 0 to 2, rows name 3": "'x' AS value, 3 AS partition",
    "before 1970": "'x' AS value, TIMESTAMP '1969-12-31 00:00:00' AS timestamp",
    "after.max.ms": "'x' AS value, current_timestamp() + INTERVAL 2 HOURS AS timestamp",
    "headers without a key": "'x' AS value, array(named_struct('key', CAST(NULL AS STRING), "
    "'value', CAST('x' AS BINARY))) AS headers",
}


@pytest.mark.parametrize("reason", NEVER_SENT)
def test_rows_that_could_never_be_sent_fail_the_checkpoint_not_the_commit(
    home: Home, reason: str
) -> None:
    rows = home.spark.sql(f"SELECT {NEVER_SENT[reason]}")
    with pytest.raises(UsageError, match=reason):
        home.sink().pre_commit(home.epoch(1, rows))


def test_rows_must_name_a_topic_that_is_there_and_have_the_keys_that_it_needs(home: Home) -> None:
    sink = home.sink(topic=None)
    compacted = home.broker.new_topic(cleanup_policy="compact")
    topics = f"CAST(NULL AS STRING), 'nowhere', '{compacted}'"
    rows = home.spark.sql(f"SELECT 'x' AS value, explode(array({topics})) AS topic")
    with pytest.raises(UsageError) as caught:
        sink.pre_commit(home.epoch(1, rows))
    for reason in ("no value in column 'topic'", "no topic 'nowhere'", "rows have no key"):
        assert reason in caught.value.message


def test_large_rows_and_topics_with_small_limits_are_no_trouble(home: Home) -> None:
    large = home.broker.new_topic(max_message_bytes="5000000")
    small = home.broker.new_topic(max_message_bytes="2000")
    rows = home.spark.sql(
        f"SELECT repeat('x', 3000000) AS value, '{large}' AS topic UNION ALL "
        f"SELECT repeat('y', 1000) AS value, '{small}' AS topic FROM range(100)"
    )
    home.committed(home.sink(topic=None), 1, rows)
    for topic in (large, small):
        settle(home.broker.servers, topic)
    assert [len(text) for text in values(home.broker.servers, large)] == [3_000_000]
    assert [len(text) for text in values(home.broker.servers, small)] == [1000] * 100


def test_lost_markers_are_noticed_and_somebody_decides(home: Home) -> None:
    sink = home.sink()
    sent, waits = home.epoch(1, home.numbers(0, 5)), home.epoch(2, home.numbers(5, 5))
    handles = [sink.pre_commit(sent), sink.pre_commit(waits)]
    sink.commit(sent, handles[0])
    base = f"{home.prefix}-{SINK}"
    admin = home.broker.admin()
    admin.delete_topics([base])[base].result()
    again = home.sink()
    with pytest.raises(MarkersLost, match=r"checkpoint 1(?s:.*)lost_markers"):
        again.recover_and_commit(sent, handles[0])
    home.sink(lost_markers="skip").recover_and_commit(sent, handles[0])
    home.sink(lost_markers="send").recover_and_commit(waits, handles[1])
    assert home.values() == list(range(10))


def test_a_topic_of_markers_that_forgets_is_refused(home: Home) -> None:
    from confluent_kafka.cimpl import NewTopic

    base = f"{home.prefix}-{SINK}"
    admin = home.broker.admin()
    admin.create_topics([NewTopic(base, 1, 1)])[base].result()
    with pytest.raises(UsageError, match=r"cleanup.policy=delete"):
        home.sink()


def test_markers_are_found_behind_many_others(home: Home) -> None:
    home.sink()
    cluster, base = Cluster(home.broker.servers), f"{home.prefix}-{SINK}"
    writer = Writer(cluster, base, 0)
    writer.fence()
    writer.begin()
    writer.send([record_of(base, b"{}", b"x", 0)] * 3000)
    writer.arrive()
    writer.commit()
    markers = Markers(cluster, base)
    claimed = SentMarker(Owner(JOB, SINK), 0)
    assert markers.of(0, claimed.owner) == [claimed]
    assert markers.last(0) == claimed


# At least once


def test_at_least_once_sends_each_batch_when_it_is_written(home: Home) -> None:
    sink = hf.sinks.kafka(home.broker.servers, home.topic, delivery="at-least-once")
    sink.check(home.spark, home.numbers(0, 1).schema)
    sink.write(home.numbers(0, 100, 3), 0)  # type: ignore[union-attr]
    assert home.values() == list(range(100))
    assert everything(home.broker.servers, home.topic) == committed(home.broker.servers, home.topic)
    sink.write(home.numbers(0, 100, 3), 0)  # type: ignore[union-attr]
    assert len(home.values()) == 200
