"""Whether an epoch has been sent to Kafka, by what the markers of its sink say.

A marker is written in the transaction that sends the rows, so it is there if and only if they are.
Epochs of a sink are sent in the order of their checkpoints, and a job never gives out the number of
a checkpoint twice: an epoch has been sent if its marker *or a newer one* of its owner is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

CLAIM = 0
"""The checkpoint in the marker of a job that has not sent anything yet; real ones begin at 1."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A sink of a job. Two sinks of one job have the same checkpoints, and must not be confused."""

    job_id: str
    sink: str


@dataclass(frozen=True, slots=True)
class SentMarker:
    """The rows of this checkpoint of this sink are in the topic."""

    owner: Owner
    checkpoint: int


class Verdict(Enum):
    """What a writer has to do with its part of an epoch."""

    SENT = "the rows are in the topic"
    NOT_SENT = "the rows must be sent"
    TAKEN_OVER = "another owner has taken the names over"


def newest_of(found: Sequence[SentMarker], owner: Owner) -> int:
    """The newest checkpoint of an owner that has been sent; ``CLAIM`` if none has."""
    return max((marker.checkpoint for marker in found if marker.owner == owner), default=CLAIM)


def judge(found: Sequence[SentMarker], owner: Owner, runner: Owner, checkpoint: int) -> Verdict:
    """Decide by the markers of one part, oldest first, at least back to the newest of ``owner``.

    ``owner`` is that of the checkpoint, ``runner`` the one that runs now: another if its job was
    restored from it. Markers of a third one behind theirs mean that both are of the past.
    """
    if newest_of(found, owner) >= checkpoint:
        return Verdict.SENT
    if found and found[-1].owner not in (owner, runner):
        return Verdict.TAKEN_OVER
    return Verdict.NOT_SENT


def to_leave(
    found: Sequence[SentMarker], owner: Owner, runner: Owner, checkpoint: int
) -> list[SentMarker]:
    """The markers to send with an epoch. The last one tells whose names they are, and stays so."""
    sent = SentMarker(owner, checkpoint)
    if runner == owner or not found or found[-1].owner != runner:
        return [sent]
    return [sent, SentMarker(runner, newest_of(found, runner))]


class Claim(Enum):
    """What the names at the broker are to a sink that starts."""

    FREE = "nobody has used them"
    OURS = "this sink has used them"
    LEFT = "another one has used them, and they are given to this one"
    TAKEN = "another one uses them"


def judge_claim(last: SentMarker | None, owner: Owner, take_over: str | None) -> Claim:
    """Decide by the newest marker of all; ``take_over`` names the job whose time is over.

    Nobody can take over from another sink of the same job: both run, and each would count the
    other's epochs as its own.
    """
    if last is None:
        return Claim.FREE
    if last.owner == owner:
        return Claim.OURS
    is_left = last.owner.job_id == take_over and take_over != owner.job_id
    return Claim.LEFT if is_left else Claim.TAKEN
