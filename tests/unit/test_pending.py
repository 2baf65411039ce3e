"""Checkpoints in flight: acknowledgements, completion, expiry, being overtaken by newer ones."""

from __future__ import annotations

from holdfast.protocol.pending import Ack, PendingCheckpoints
from holdfast.protocol.triggering import Cause, Request

REQUEST = Request(Cause.PERIODIC, 0.0)


def _pending(*checkpoints: int, regions: str = "ab") -> PendingCheckpoints[str]:
    """Checkpoint n is triggered at second n."""
    pending: PendingCheckpoints[str] = PendingCheckpoints()
    for number in checkpoints:
        pending.begin(number, REQUEST, set(regions), float(number))
    return pending


def test_the_acknowledgement_of_the_last_region_completes() -> None:
    pending = _pending(1, regions="abc")
    assert pending.acknowledge(1, "b", "B") is Ack.ACCEPTED
    assert pending.acknowledge(1, "a", "A") is Ack.ACCEPTED
    assert pending.acknowledge(1, "c", "C") is Ack.COMPLETE
    ended = pending.end(1)
    assert ended is not None
    assert ended.acks == {"a": "A", "b": "B", "c": "C"}


def test_a_region_that_answers_twice_counts_once_and_keeps_its_first_answer() -> None:
    pending = _pending(1)
    pending.acknowledge(1, "a", "first")
    assert pending.acknowledge(1, "a", "second") is Ack.DUPLICATE
    found = pending.get(1)
    assert found is not None
    assert found.acks == {"a": "first"}
    assert found.waiting == {"b"}


def test_an_answer_after_the_end_is_too_late() -> None:
    pending = _pending(1)
    pending.acknowledge(1, "a", "A")
    pending.end(1)
    assert pending.acknowledge(1, "b", "B") is Ack.TOO_LATE
    assert len(pending) == 0


def test_an_answer_to_a_checkpoint_that_never_was_is_too_late() -> None:
    assert _pending(1).acknowledge(7, "a", "A") is Ack.TOO_LATE


def test_a_region_that_was_not_asked_does_not_count() -> None:
    pending = _pending(1, regions="a")
    assert pending.acknowledge(1, "stranger", "S") is Ack.DUPLICATE
    assert pending.acknowledge(1, "a", "A") is Ack.COMPLETE


def test_a_checkpoint_ends_once() -> None:
    pending = _pending(1)
    assert pending.end(1) is not None
    assert pending.end(1) is None
    assert pending.get(1) is None


def test_checkpoints_in_flight_are_answered_independently() -> None:
    pending = _pending(1, 2)
    pending.acknowledge(1, "a", "A1")
    pending.acknowledge(2, "a", "A2")
    assert pending.acknowledge(2, "b", "B2") is Ack.COMPLETE
    assert pending.acknowledge(1, "b", "B1") is Ack.COMPLETE


def test_a_newer_one_that_completes_subsumes_those_before_it_and_none_behind() -> None:
    assert _pending(4, 2, 7, 3).older_than(4) == [2, 3]


def test_the_caller_of_begin_may_change_its_set_of_regions() -> None:
    regions = {"a", "b"}
    pending: PendingCheckpoints[str] = PendingCheckpoints()
    pending.begin(1, REQUEST, regions, 0.0)
    regions.clear()
    assert pending.acknowledge(1, "a", "A") is Ack.ACCEPTED


def test_a_checkpoint_expires_when_its_timeout_has_passed() -> None:
    pending = _pending(10, 12)
    assert pending.expired(5.0, now=14.9) == []
    assert pending.expired(5.0, now=15.0) == [10]
    assert pending.expired(5.0, now=17.0) == [10, 12]


def test_the_next_deadline_is_that_of_the_oldest() -> None:
    pending = _pending(12, 10)
    assert pending.next_deadline(5.0) == 15.0
    pending.end(10)
    assert pending.next_deadline(5.0) == 17.0
    pending.end(12)
    assert pending.next_deadline(5.0) is None


def test_one_that_has_been_aligning_for_too_long_is_overdue() -> None:
    pending = _pending(10)
    assert pending.overdue(2.0, now=11.9) == []
    assert pending.overdue(2.0, now=12.0) == [10]


def test_checkpoints_may_be_ended_while_all_are_gone_through() -> None:
    pending = _pending(1, 2, 3)
    for found in pending:
        pending.end(found.id)
    assert len(pending) == 0
