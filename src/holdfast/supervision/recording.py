"""Deaths of runners in the history of their job, beside the failures that a runner survived."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.protocol.records import FailureRecord
from holdfast.runtime.failure_log import FailureLog
from holdfast.settings import FailureClass, Scope
from holdfast.supervision.inheritance import Death

ERROR = "RunnerDied"
_WHY = "the process gave out; nothing says that the next one would too"


def record(log: FailureLog, deaths: Sequence[Death]) -> None:
    """Write them down."""
    for death in deaths:
        _add(log, death)


def recovered(log: FailureLog, now: float) -> None:
    """Everything runs: this ends all deaths after which there was a restart, however many."""
    for each in log.all():
        if each.error == ERROR and each.delay is not None and each.recovered is None:
            log.recovered(each.number, now)


def _add(log: FailureLog, death: Death) -> None:
    log.add(
        FailureRecord(
            number=log.next_number(),
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
