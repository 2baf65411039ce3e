"""What a runner is told at its start, by environment variables: its link, and what was before."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.protocol.restarts import Past

LINK = "HOLDFAST_SUPERVISOR"
"""The file descriptor of the runner's end of the link."""
PAST = "HOLDFAST_PAST"
DEATHS = "HOLDFAST_DEATHS"
BEGUN = "HOLDFAST_BEGUN"

# The system takes 128 KiB per variable.
_PAST_KEPT = 3000
DEATHS_KEPT = 100


@dataclass(frozen=True, slots=True)
class Death:
    """A runner that died, and what was decided."""

    at: float
    why: str
    decision: str
    attempt: int | None = None
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What earlier runners of the same supervisor leave to the next one."""

    past: tuple[Past, ...] = ()
    deaths: tuple[Death, ...] = ()
    """Those that are not in the job's history yet."""
    begun: bool = False
    """Whether an earlier one has begun as it was told, so that this one only goes on."""


def to_environ(left: Inheritance) -> dict[str, str]:
    """As environment variables."""
    past = [[each.at, each.delay] for each in left.past[-_PAST_KEPT:]]
    deaths = [asdict(death) for death in left.deaths[-DEATHS_KEPT:]]
    chosen = {PAST: json.dumps(past), DEATHS: json.dumps(deaths)}
    return {**chosen, BEGUN: "1"} if left.begun else chosen


def from_environ(environ: Mapping[str, str]) -> Inheritance:
    """The inverse of ``to_environ``."""
    return Inheritance(
        tuple(Past(at, delay) for at, delay in _list(environ.get(PAST))),
        tuple(Death(**item) for item in _list(environ.get(DEATHS))),
        BEGUN in environ,
    )


def forget(environ: MutableMapping[str, str]) -> None:
    """What the runner starts is no runner of this supervisor."""
    for name in (LINK, PAST, DEATHS, BEGUN):
        environ.pop(name, None)


def _list(text: str | None) -> list[Any]:
    found: list[Any] = json.loads(text) if text else []
    return found
