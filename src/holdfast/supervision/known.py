"""What a supervisor has learned about its job, from all runners so far."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.protocol.restarts import Past
from holdfast.protocol.watching import Limits
from holdfast.supervision.inheritance import DEATHS_KEPT, Death, Inheritance
from holdfast.supervision.messages import (
    Begun,
    Claimed,
    LogAt,
    Message,
    Recorded,
    Restarted,
    Terms,
)

_BEFORE_SETTINGS = Limits(heartbeat_timeout=50.0, stuck_timeout=None)


@dataclass(slots=True)
class Known:
    """Grows with every message."""

    terms: Terms | None = None
    job: Claimed | None = None
    log: Path | None = None
    past: tuple[Past, ...] = ()
    deaths: tuple[Death, ...] = ()
    """Those that are not in the job's history yet."""
    history: str | None = None
    """Where all of them go; known since the first runner has begun."""

    def take(self, message: Message) -> None:
        """Remember what matters for later runners too."""
        match message:
            case Terms():
                self.terms = message
            case Claimed():
                self.job = message
            case LogAt():
                self.log = Path(message.path)
            case Begun():
                self.history = message.history
            case Restarted():
                self.past += message.past
            case Recorded():
                self.deaths = self.deaths[message.deaths :]

    def died(self, death: Death) -> None:
        """Remember a death, until a runner has written it down."""
        self.deaths = (*self.deaths, death)[-DEATHS_KEPT:]

    @property
    def begun(self) -> bool:
        """Whether there is a job to go on with."""
        return self.history is not None

    @property
    def limits(self) -> Limits:
        """How long a runner may be silent."""
        return self.terms.limits if self.terms is not None else _BEFORE_SETTINGS

    @property
    def inheritance(self) -> Inheritance:
        """For the next runner."""
        return Inheritance(self.past, self.deaths, self.begun)
