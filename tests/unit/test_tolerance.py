"""Which failed checkpoints count, and when they fail the job."""

from __future__ import annotations

import pytest

from holdfast.protocol.failures import Reason, Tolerance, Verdict

COUNTED = {
    Reason.EXPIRED,
    Reason.DECLINED,
    Reason.SNAPSHOT_FAILED,
    Reason.TRIGGER_FAILED,
    Reason.STORE_FAILED,
}


def test_without_tolerance_the_first_failure_fails_the_job() -> None:
    assert Tolerance(0).failed(1, Reason.SNAPSHOT_FAILED) is Verdict.EXCEEDED


def test_as_many_failures_in_a_row_as_allowed_are_tolerated() -> None:
    tolerance = Tolerance(2)
    assert tolerance.failed(1, Reason.EXPIRED) is Verdict.TOLERATED
    assert tolerance.failed(2, Reason.DECLINED) is Verdict.TOLERATED
    assert tolerance.failed(3, Reason.STORE_FAILED) is Verdict.EXCEEDED


def test_a_success_starts_the_count_anew() -> None:
    tolerance = Tolerance(1)
    tolerance.failed(1, Reason.EXPIRED)
    tolerance.succeeded(2)
    assert tolerance.failed(3, Reason.EXPIRED) is Verdict.TOLERATED
    assert tolerance.failed(4, Reason.EXPIRED) is Verdict.EXCEEDED


def test_a_checkpoint_counts_once_however_many_regions_fail_it() -> None:
    tolerance = Tolerance(1)
    assert tolerance.failed(1, Reason.SNAPSHOT_FAILED) is Verdict.TOLERATED
    assert tolerance.failed(1, Reason.SNAPSHOT_FAILED) is Verdict.IGNORED
    assert tolerance.failed(1, Reason.EXPIRED) is Verdict.IGNORED


def test_a_checkpoint_older_than_the_last_success_is_past() -> None:
    tolerance = Tolerance(0)
    tolerance.succeeded(5)
    assert tolerance.failed(4, Reason.EXPIRED) is Verdict.IGNORED
    assert tolerance.failed(6, Reason.EXPIRED) is Verdict.EXCEEDED


def test_a_late_success_of_an_older_checkpoint_does_not_bring_the_past_back() -> None:
    tolerance = Tolerance(0)
    tolerance.succeeded(5)
    tolerance.succeeded(3)
    assert tolerance.failed(4, Reason.EXPIRED) is Verdict.IGNORED


@pytest.mark.parametrize("reason", Reason)
def test_only_what_is_the_checkpoints_own_fault_counts(reason: Reason) -> None:
    verdict = Tolerance(0).failed(1, reason)
    assert verdict is (Verdict.EXCEEDED if reason in COUNTED else Verdict.IGNORED)


def test_what_does_not_count_does_not_reset_either() -> None:
    tolerance = Tolerance(1)
    tolerance.failed(1, Reason.EXPIRED)
    tolerance.failed(2, Reason.SUBSUMED)
    assert tolerance.failed(3, Reason.EXPIRED) is Verdict.EXCEEDED


def test_a_checkpoint_that_was_ignored_may_still_fail_for_a_reason_that_counts() -> None:
    tolerance = Tolerance(0)
    assert tolerance.failed(1, Reason.SUBSUMED) is Verdict.IGNORED
    assert tolerance.failed(1, Reason.EXPIRED) is Verdict.EXCEEDED


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_a_sentence(reason: Reason) -> None:
    assert reason.sentence[0].isupper()
    assert reason.sentence.endswith(".")
