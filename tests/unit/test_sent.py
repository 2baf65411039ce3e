"""Whether an epoch has been sent, by its markers."""

from __future__ import annotations

import pytest

from holdfast.protocol.sent import (
    CLAIM,
    Claim,
    Owner,
    SentMarker,
    Verdict,
    judge,
    judge_claim,
    newest_of,
    to_leave,
)

ONE, TWO, THREE = (Owner(digit * 32, "out") for digit in "123")
BESIDE = Owner(ONE.job_id, "other")
"""Another sink of the first job."""


def markers(*found: tuple[Owner, int]) -> list[SentMarker]:
    return [SentMarker(*each) for each in found]


@pytest.mark.parametrize(
    ("found", "checkpoint", "verdict"),
    [
        ([], 1, Verdict.NOT_SENT),
        ([(ONE, CLAIM)], 1, Verdict.NOT_SENT),
        ([(ONE, 6)], 7, Verdict.NOT_SENT),
        ([(ONE, 6), (ONE, 7)], 7, Verdict.SENT),
        ([(ONE, 9)], 7, Verdict.SENT),  # restored from an older checkpoint
        ([(ONE, 9)], 10, Verdict.NOT_SENT),
        ([(ONE, 7), (TWO, CLAIM)], 7, Verdict.SENT),
        ([(ONE, 6), (TWO, CLAIM)], 7, Verdict.TAKEN_OVER),
        ([(TWO, 9)], 7, Verdict.TAKEN_OVER),
        ([(BESIDE, 7)], 7, Verdict.TAKEN_OVER),
        ([(ONE, 6), (BESIDE, 7)], 7, Verdict.TAKEN_OVER),
    ],
)
def test_an_epoch_is_sent_if_its_marker_or_a_newer_one_of_its_job_is_there(
    found: list[tuple[Owner, int]], checkpoint: int, verdict: Verdict
) -> None:
    assert judge(markers(*found), ONE, ONE, checkpoint) is verdict


def test_a_job_restored_from_anothers_checkpoint_sends_what_that_one_has_not() -> None:
    own_topic = markers((ONE, 6))
    same_prefix = markers((ONE, 6), (TWO, CLAIM))
    for found in (own_topic, same_prefix):
        assert judge(found, ONE, TWO, 7) is Verdict.NOT_SENT
        assert judge(found, ONE, TWO, 6) is Verdict.SENT


def test_a_third_job_ends_the_time_of_both() -> None:
    assert judge(markers((ONE, 6), (TWO, 8), (THREE, 0)), ONE, TWO, 7) is Verdict.TAKEN_OVER


def test_the_newest_of_a_sink_is_not_that_of_others() -> None:
    assert newest_of(markers((ONE, 3), (BESIDE, 9)), ONE) == 3
    assert newest_of(markers((ONE, 3), (TWO, 9)), ONE) == 3
    assert newest_of(markers((TWO, 9)), ONE) == CLAIM


def test_who_sends_anothers_epoch_leaves_the_names_with_whom_they_belong_to() -> None:
    taken_over = markers((ONE, 6), (TWO, 4))
    assert to_leave(taken_over, ONE, TWO, 7) == markers((ONE, 7), (TWO, 4))
    still_theirs = markers((ONE, 6))
    assert to_leave(still_theirs, ONE, TWO, 7) == markers((ONE, 7))
    assert to_leave(still_theirs, ONE, ONE, 7) == markers((ONE, 7))
    assert to_leave([], ONE, TWO, 7) == markers((ONE, 7))


@pytest.mark.parametrize(
    ("last", "take_over", "claim"),
    [
        (None, None, Claim.FREE),
        (SentMarker(ONE, 5), None, Claim.OURS),
        (SentMarker(TWO, 5), None, Claim.TAKEN),
        (SentMarker(TWO, CLAIM), None, Claim.TAKEN),
        (SentMarker(TWO, 5), TWO.job_id, Claim.LEFT),
        (SentMarker(TWO, 5), THREE.job_id, Claim.TAKEN),
        (SentMarker(BESIDE, 5), None, Claim.TAKEN),
        (SentMarker(BESIDE, 5), ONE.job_id, Claim.TAKEN),
    ],
)
def test_names_of_another_one_are_taken_only_if_somebody_says_so(
    last: SentMarker | None, take_over: str | None, claim: Claim
) -> None:
    assert judge_claim(last, ONE, take_over) is claim
