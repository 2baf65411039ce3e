"""Whether an epoch has been sent to Kafka, by what the markers of its sink say.

A marker is written in the transaction that sends the rows, so it is there if and only if they are.
Epochs of a job are sent in the order of their checkpoints, and a job never gives out the number of
a checkpoint twice: an epoch has been sent if its marker *or a newer one* of the same job is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

CLAIM = 0
"""The checkpoint in the marker of a job that has not sent anything yet; real ones begin at 1."""


@dataclass(frozen=True, slots=True)
class SentMarker:
    """The rows of this checkpoint of this job are in the topic."""

    job_id: str
    checkpoint: int


class Verdict(Enum):
    """What a writer has to do with its part of an epoch."""

    SENT = "the rows are in the topic"
    NOT_SENT = "the rows must be sent"
    TAKEN_OVER = "another job has taken the names over"


def newest_of(found: Sequence[SentMarker], job_id: str) -> int:
    """The newest checkpoint of a job that has been sent; ``CLAIM`` if none has."""
    return max((marker.checkpoint for marker in found if marker.job_id == job_id), default=CLAIM)


def judge(found: Sequence[SentMarker], owner: str, runner: str, checkpoint: int) -> Verdict:
    """Decide by the markers of one part, oldest first, at least back to the newest of ``owner``.

    ``owner`` is the job that took the checkpoint. ``runner``, the job that runs now, is another if
    it was restored from it. Markers of a third job behind theirs mean that both are of the past.
    """
    if newest_of(found, owner) >= checkpoint:
        return Verdict.SENT
    if found and found[-1].job_id not in (owner, runner):
        return Verdict.TAKEN_OVER
    return Verdict.NOT_SENT


def to_leave(
    found: Sequence[SentMarker], owner: str, runner: str, checkpoint: int
) -> list[SentMarker]:
    """The markers to send with an epoch. The last one tells whose names they are, and stays so."""
    sent = SentMarker(owner, checkpoint)
    if runner == owner or not found or found[-1].job_id != runner:
        return [sent]
    return [sent, SentMarker(runner, newest_of(found, runner))]


class Claim(Enum):
    """What the names at the broker are to a job that starts."""

    FREE = "nobody has used them"
    OURS = "this job has used them"
    LEFT = "another job has used them, and they are given to this one"
    TAKEN = "another job uses them"


def judge_claim(last: SentMarker | None, job_id: str, take_over: str | None) -> Claim:
    """Decide by the newest marker of all; ``take_over`` names the job whose time is over."""
    if last is None:
        return Claim.FREE
    if last.job_id == job_id:
        return Claim.OURS
    return Claim.LEFT if last.job_id == take_over else Claim.TAKEN
