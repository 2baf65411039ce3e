"""Writers to Kafka that stay in their process for the next epoch, and are never trusted too far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from holdfast.protocol.sent import Owner, SentMarker
from holdfast.sinks.kafka import kept
from holdfast.sinks.kafka.client import Cluster, KafkaFenced
from holdfast.sinks.kafka.markers import Markers
from holdfast.sinks.kafka.rows import record_of
from holdfast.sinks.kafka.sending import PartOfEpoch, put_marker, send_part
from holdfast.sinks.kafka.writers import Writer
from tests.services.epochs import JOB, SINK
from tests.services.kafka_broker import KafkaBroker
from tests.services.kafka_reading import settle, values

OWNER = Owner(JOB, SINK)


@dataclass
class Sending:
    """Epochs of one sink, each with two rows that are named after it."""

    broker: KafkaBroker
    topic: str
    fenced: list[str] = field(default_factory=list)
    """Ids, each time that a writer has taken the place of all others."""

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.broker.servers)

    @property
    def base(self) -> str:
        return f"test-{self.topic}"

    def part(self, checkpoint: int, owner: Owner = OWNER) -> PartOfEpoch:
        return PartOfEpoch(self.base, 0, owner, owner, checkpoint)

    def send(self, checkpoint: int, owner: Owner = OWNER) -> None:
        send_part(self.cluster, self.part(checkpoint, owner), batches(checkpoint), self.topic)

    def another_sends(self, checkpoint: int) -> None:
        """As from another process."""
        other = Writer(self.cluster, self.base, 0)
        other.fence()
        other.begin()
        rows = [record_of(self.topic, text.encode()) for text in names(checkpoint)]
        other.send(rows)
        other.arrive()
        put_marker(other, self.base, 0, SentMarker(OWNER, checkpoint), len(rows))
        other.commit()

    def seen(self) -> list[str]:
        settle(self.broker.servers, self.topic)
        return sorted(values(self.broker.servers, self.topic))


def names(checkpoint: int) -> list[str]:
    return [f"{checkpoint}-a", f"{checkpoint}-b"]


def batches(checkpoint: int) -> Iterator[pa.RecordBatch]:
    for text in names(checkpoint):
        yield pa.RecordBatch.from_pydict({"value": [text]})


def all_of(*checkpoints: int) -> list[str]:
    return sorted(text for checkpoint in checkpoints for text in names(checkpoint))


@pytest.fixture
def sending(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Sending:
    made = Sending(kafka, kafka.new_topic())
    Markers(made.cluster, made.base).ensure(1)
    fence = Writer.fence

    def counted(writer: Writer) -> None:
        made.fenced.append(writer.id)
        fence(writer)

    monkeypatch.setattr(Writer, "fence", counted)
    return made


def test_one_fence_is_enough_for_all_epochs_of_a_process(sending: Sending) -> None:
    for checkpoint in (1, 2, 5):
        sending.send(checkpoint)
    assert len(sending.fenced) == 1
    assert sending.seen() == all_of(1, 2, 5)
    assert Markers(sending.cluster, sending.base).last(0) == SentMarker(OWNER, 5)


def test_an_epoch_that_another_process_has_sent_meanwhile_is_not_sent_again(
    sending: Sending,
) -> None:
    sending.send(1)
    sending.another_sends(2)
    sending.send(2)
    assert sending.seen() == all_of(1, 2)
    sending.send(3)
    assert sending.seen() == all_of(1, 2, 3)


def test_a_writer_that_was_fenced_begins_anew_and_loses_nothing(sending: Sending) -> None:
    sending.send(1)
    Writer(sending.cluster, sending.base, 0).fence()
    sending.send(2)
    assert sending.seen() == all_of(1, 2)
    assert len(sending.fenced) == 3


def test_a_writer_that_is_fenced_behind_its_first_rows_commits_nothing(sending: Sending) -> None:
    sending.send(1)

    def overtaken() -> Iterator[pa.RecordBatch]:
        first, second = batches(2)
        yield first
        sending.another_sends(2)
        yield second

    with pytest.raises(KafkaFenced):
        send_part(sending.cluster, sending.part(2), overtaken(), sending.topic)
    sending.send(2)
    assert sending.seen() == all_of(1, 2)


def test_older_and_repeated_epochs_are_looked_up(sending: Sending) -> None:
    for checkpoint in (1, 4, 4, 2):
        sending.send(checkpoint)
    assert sending.seen() == all_of(1, 4)
    sending.send(3)  # behind the look-up of 2, nobody may believe that it is the newest
    assert sending.seen() == all_of(1, 4)


def test_a_writer_is_not_used_for_another_owner_or_behind_a_failure(sending: Sending) -> None:
    sending.send(1)
    name = f"{sending.base}-0"

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        send_part(sending.cluster, sending.part(2), failing(), sending.topic)
    assert kept.take(sending.cluster, name, OWNER, 9) is None
    sending.send(2)
    assert kept.take(sending.cluster, name, Owner(JOB, "other"), 9) is None
    assert kept.take(sending.cluster, name, OWNER, 9) is None
    assert sending.seen() == all_of(1, 2)
