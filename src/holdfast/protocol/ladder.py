"""Who restarts after a failure, and from what: the smallest scope first, a checkpoint last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.settings import FailureClass, Scope

__all__ = ["LADDER", "Rung", "Scope", "Source", "connected", "members", "merge", "next_rung"]

Inputs = Mapping[str, Sequence[str]]
"""Every region of a job, with the regions whose channels it reads."""


class Source(Enum):
    """What a region restarts from."""

    OWN_LOGS = "own query logs"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Rung:
    """How far a restart reaches. Only all regions together go back to a checkpoint."""

    scope: Scope
    source: Source = Source.OWN_LOGS


LADDER = (
    Rung(Scope.INDIVIDUAL),
    Rung(Scope.REGION),
    Rung(Scope.ALL),
    Rung(Scope.ALL, Source.CHECKPOINT),
)
"""Lowest first. No other rungs exist."""


def connected(inputs: Inputs, region: str) -> frozenset[str]:
    """The region and all that channels join with it, in either direction and over others."""
    neighbours: dict[str, set[str]] = {uid: set() for uid in inputs}
    for reader, producers in inputs.items():
        for producer in producers:
            neighbours[reader].add(producer)
            neighbours[producer].add(reader)
    found, to_visit = {region}, [region]
    while to_visit:
        new = neighbours[to_visit.pop()] - found
        found |= new
        to_visit.extend(new)
    return frozenset(found)


def members(inputs: Inputs, region: str | None, scope: Scope) -> frozenset[str]:
    """The regions that restart. A failure of no region in particular is everybody's."""
    if region is None or scope is Scope.ALL:
        return frozenset(inputs)
    return frozenset({region}) if scope is Scope.INDIVIDUAL else connected(inputs, region)


def next_rung(start: Scope, kind: FailureClass, region: str | None, last: Rung | None) -> Rung:
    """The rung for a failure that can be recovered from.

    ``last`` is the rung of the failure before, of the same region or of none, if no batch has been
    committed since: what did not help is not tried again, and at the top there is nothing else
    left to try. ``None`` begins anew.
    """
    if kind is FailureClass.PARTITION_DATA_MISSING:
        return LADDER[-1]
    first = Rung(Scope.ALL if region is None else start)
    if last is None:
        return first
    above = LADDER[min(LADDER.index(last) + 1, len(LADDER) - 1)]
    return merge(first, above)


def merge(one: Rung, other: Rung) -> Rung:
    """The rung for two failures that wait for one restart: larger scope, deeper source.

    Each failed region then restarts with its ``members`` in that scope.
    """
    return max(one, other, key=LADDER.index)
