"""What a job, or all its regions together, go on from: own query logs, a checkpoint, nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import TypeAlias

from holdfast.settings import BoundedRestart, Mode


class Policy(Enum):
    """What a job has asked for."""

    RECOVER = "own query logs, else the newest usable checkpoint"
    LATEST = "the newest input, with empty state"
    SCRATCH = "the first row, with empty state"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A completed checkpoint, and what is wrong with it if it was found to be unusable."""

    id: int
    path: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """Every region goes on from its own query log; nothing is processed again."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Go back to this checkpoint. The skipped ones are newer, and cannot be used."""

    candidate: Candidate
    skipped: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Fresh:
    """Begin at the first row with empty state."""


@dataclass(frozen=True, slots=True)
class FromLatest:
    """Go on at the newest input with empty state; what lies between is lost, as was asked for."""


@dataclass(frozen=True, slots=True)
class Nowhere:
    """There is nothing to go on from that would be right: the job fails, nothing is deleted."""

    why: str


Plan: TypeAlias = Resume | Restore | Fresh | FromLatest | Nowhere


def policy_of(mode: Mode, bounded_restart: BoundedRestart, *, is_bounded: bool) -> Policy:
    """What the settings ask for."""
    if mode is Mode.AT_MOST_ONCE:
        return Policy.LATEST
    scratch = is_bounded and bounded_restart is BoundedRestart.SCRATCH
    return Policy.SCRATCH if scratch else Policy.RECOVER


def choose(
    policy: Policy,
    own_log_problem: str | None,
    candidates: Sequence[Candidate],
    *,
    may_use_own: bool,
    ever_completed: bool,
) -> Plan:
    """What to go on from, for a job that wants to recover:

    1. The regions' own query logs, if they are intact (``own_log_problem`` is None) and a failure
       has not shown that they do not help (``may_use_own``).
    2. The newest checkpoint without a problem; ``candidates`` are newest first.
    3. Without any checkpoint the query logs after all: who cannot go back loses nothing by trying
       again, while to begin anew would write every row again, or leave out what the sources do
       not keep.
    4. Nothing, if the query logs are damaged, but only if no checkpoint was ever completed. From
       then on sinks hold rows that were promised once, and to begin anew would write them again.
    """
    if policy is Policy.LATEST:
        return FromLatest()
    if policy is Policy.SCRATCH:
        return Fresh()
    if may_use_own and own_log_problem is None:
        return Resume()
    skipped = tuple(takewhile(lambda each: each.problem is not None, candidates))
    if len(skipped) < len(candidates):
        return Restore(candidates[len(skipped)], skipped)
    if not candidates and own_log_problem is None:
        return Resume()
    if not candidates and not ever_completed:
        return Fresh()
    return Nowhere(_why(own_log_problem, skipped))


def lagging(stands: Mapping[str, int], cuts: Mapping[str, int]) -> list[str]:
    """Regions whose query log has lost batches that a completed checkpoint includes.

    Spark does not make sure that its log outlives a power cut, while a checkpoint does. Such a
    region would plan those batches anew, with other rows than sinks have got of them.
    """
    return sorted(uid for uid, cut in cuts.items() if uid in stands and stands[uid] < cut)


def _why(own_log_problem: str | None, skipped: Sequence[Candidate]) -> str:
    own = own_log_problem or "they did not help"
    found = [f"checkpoint {each.id} ({each.path}): {each.problem}" for each in skipped]
    if not found:
        found = ["checkpoints: there were some, and none is left"]
    return "; ".join([f"own query logs: {own}", *found])
