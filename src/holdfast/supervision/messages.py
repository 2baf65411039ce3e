"""What a runner tells its supervisor: one JSON object per line, ``{"over": {"state": …}}``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from holdfast.protocol.restarts import Past
from holdfast.protocol.watching import Limits, Pulse
from holdfast.server.processes import Process
from holdfast.settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart, Strategy

_STRATEGIES: dict[str, type[Strategy]] = {
    kind.__name__: kind for kind in (NoRestart, FixedDelay, FailureRate, ExponentialDelay)
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What the job's settings say about restarts."""

    restart: Strategy
    limits: Limits


@dataclass(frozen=True, slots=True)
class LogAt:
    """From now on the runner prints here, and its stacks if it is asked for them."""

    path: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """The job is known, and that nobody else runs it."""

    job_id: str
    name: str
    work_dir: str
    started: float


@dataclass(frozen=True, slots=True)
class JvmStarted:
    """Spark's JVM is up."""

    process: Process


@dataclass(frozen=True, slots=True)
class Begun:
    """What to begin with is decided and on disk: a later runner goes on from there."""

    history: str
    """Where the job's failures are written down."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """Restarts within the runner, since the last message."""

    past: tuple[Past, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """So many deaths that the runner was told of are in the job's history now."""

    deaths: int


@dataclass(frozen=True, slots=True)
class Dying:
    """The runner ends because it cannot go on; another one can."""

    why: str


@dataclass(frozen=True, slots=True)
class Over:
    """The job has ended, and the runner is about to: this is an answer."""

    state: str
    code: int


Message: TypeAlias = (
    Pulse | Terms | LogAt | Claimed | JvmStarted | Begun | Restarted | Recorded | Dying | Over
)


def encode(message: Message) -> bytes:
    """One line."""
    item: dict[str, Any]
    match message:
        case Pulse():
            item = {"pulse": _without(asdict(message), "at")}
        case Terms():
            chosen = {"type": type(message.restart).__name__, **asdict(message.restart)}
            item = {"settings": {"restart": chosen, **asdict(message.limits)}}
        case JvmStarted():
            item = {"jvm": asdict(message.process)}
        case Restarted():
            item = {"past": [[each.at, each.delay] for each in message.past]}
        case _:
            item = {_NAMES[type(message)]: asdict(message)}
    return json.dumps(item).encode() + b"\n"


def decode(line: bytes, at: float) -> Message | None:
    """The inverse of ``encode``; ``None`` if it is not that. ``at`` is when it was heard."""
    try:
        ((name, body),) = json.loads(line).items()
        return _READERS[name](body, at)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _without(item: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in item.items() if k != key}


def _terms(body: Any, _: float) -> Terms:
    chosen = body.pop("restart")
    return Terms(_STRATEGIES[chosen.pop("type")](**chosen), Limits(**body))


_NAMES: dict[type[Any], str] = {
    LogAt: "log",
    Claimed: "claimed",
    Begun: "begun",
    Recorded: "recorded",
    Dying: "dying",
    Over: "over",
}


def _plain(kind: type[Any]) -> Callable[[Any, float], Message]:
    return lambda body, _: kind(**body)


_READERS: dict[str, Callable[[Any, float], Message]] = {
    **{name: _plain(kind) for kind, name in _NAMES.items()},
    "pulse": lambda body, at: Pulse(at=at, **body),
    "settings": _terms,
    "jvm": lambda body, _: JvmStarted(Process(**body)),
    "past": lambda body, _: Restarted(tuple(Past(*each) for each in body)),
}
