"""Deaths of runners in the history of their job, beside the failures that a runner survived."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.protocol.records import FailureRecord
from holdfast.runtime.failure_log import FailureLog
from holdfast.settings import FailureClass, Scope
from holdfast.supervision.inheritance import Death

ERROR = "RunnerDied"
_WHY = "the process gave out; nothing says that the next one would too"


def record(log: FailureLog, deaths: Sequence[Death]) -> list[int]:
    """Write them down; returns their numbers."""
    return [_add(log, death) for death in deaths]


def _add(log: FailureLog, death: Death) -> int:
    number = log.next_number()
    log.add(
        FailureRecord(
            number=number,
            at=death.at,
            region=None,
            kind=FailureClass.ENVIRONMENT.value,
            why=_WHY,
            error=ERROR,
            message=death.why,
            decision=death.decision,
            scope=Scope.ALL.value,
            attempt=death.attempt,
            delay=death.delay,
        )
    )
    return number
