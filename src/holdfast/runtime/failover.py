"""What happens after a failure: judged, decided and carried out, one at a time.

One thread. While a restart is pending, further failures join it: whoever failed meanwhile restarts
with the others, and no attempt is counted twice.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from holdfast import clock
from holdfast.errors import HoldfastError
from holdfast.protocol.causes import Classified, FailureClass, Rule, classify
from holdfast.protocol.ladder import Rung, Scope, Source, members, merge, next_rung
from holdfast.protocol.records import FailureRecord
from holdfast.protocol.restarts import GiveUp, Past, RestartIn, decide
from holdfast.runtime.failure_log import FailureLog
from holdfast.runtime.life import Trouble
from holdfast.settings import Settings
from holdfast.spark.failures import causes_of

_log = logging.getLogger(__name__)
_REPORT = "This is a bug in Holdfast: the log has its trace. The next run goes on."


class NotRestarted(HoldfastError):
    """The job failed, and no restart was due."""

    code = "NOT_RESTARTED"


class Steered(Protocol):
    """The job, as far as failover steers it."""

    def batches(self, region: str | None) -> int:
        """How many batches a region, or all, have committed."""
        ...

    def halt(self, regions: Sequence[str]) -> None:
        """Stop the queries of some regions."""
        ...

    def revive(self, regions: Sequence[str]) -> None:
        """Start them again, from their query logs."""
        ...

    def halt_all(self) -> None:
        """Stop everything."""
        ...

    def revive_all(self, source: Source) -> None:
        """Start everything again, from the query logs or from a checkpoint."""
        ...

    def fail(self, error: HoldfastError) -> None:
        """End the job."""
        ...

    def has_replaced_another(self) -> bool:
        """Whether this is the newest runner, and an earlier one may not have noticed yet."""
        ...


@dataclass(frozen=True, slots=True)
class NextRestart:
    """A restart that is due, for people to see."""

    at: float
    attempt: int
    why: str
    regions: tuple[str, ...]
    """Empty if all restart."""


@dataclass(slots=True)
class _Pending:
    rung: Rung
    regions: frozenset[str]
    due: float
    """By the monotonic clock."""
    shown: NextRestart
    failed: list[str | None]
    """The regions that failed."""
    failures: list[int] = field(default_factory=list)


class Failover:
    """Decides for one run of a job."""

    def __init__(
        self,
        settings: Settings,
        inputs: Mapping[str, Sequence[str]],
        log: FailureLog,
        job: Steered,
        past: Sequence[Past] = (),
    ) -> None:
        self._settings = settings
        self._inputs = inputs
        self._log = log
        self._job = job
        self.past: list[Past] = list(past)
        """Failures that led to a restart, also of earlier processes."""
        self._climbed: dict[str | None, tuple[Rung, int]] = {}
        """By region its last rung, and how many batches it had committed then."""
        self._pending: _Pending | None = None
        self._events: queue.SimpleQueue[Trouble | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="failover", daemon=True)

    def start(self) -> None:
        """From now on failures are taken."""
        self._thread.start()

    def report(self, trouble: Trouble) -> None:
        """Something failed. Returns at once."""
        self._events.put(trouble)

    @property
    def next_restart(self) -> NextRestart | None:
        """The restart that is due, if there is one."""
        pending = self._pending
        return pending.shown if pending is not None else None

    def close(self) -> None:
        """Decide no more; what is being carried out is finished first."""
        self._closed = True
        self._events.put(None)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed:
            try:
                self._next()
            except Exception as error:  # nobody else would ever start what is down
                _log.exception("failover failed")
                ours = HoldfastError(f"failover failed: {error!r}", hint=_REPORT)
                ours.__cause__ = error
                self._give_up(ours)

    def _next(self) -> None:
        try:
            trouble = self._events.get(timeout=self._seconds_left())
        except queue.Empty:
            self._carry_out()
            return
        if trouble is not None and not self._closed:
            self._take(trouble)

    def _give_up(self, error: HoldfastError) -> None:
        record_end(self._log, self._settings.failure_rules, error)
        self._job.fail(error)
        self._closed = True

    def _seconds_left(self) -> float | None:
        if self._pending is None:
            return None
        return max(0.0, self._pending.due - time.monotonic())

    # Deciding

    def _take(self, trouble: Trouble) -> None:
        judged = self._judged(trouble)
        _log.warning("%s (%s: %s)", trouble.error, judged.kind.value, judged.why)
        if judged.kind is FailureClass.NON_RECOVERABLE:
            if not _is_by_successor(judged):
                self._record(trouble, judged, "the job failed: the failure is not recoverable")
            self._job.fail(trouble.error)
            return
        if judged.outside and self._has_tried(trouble.region):
            why = "a restart has not brought it back, and no checkpoint has it"
            self._record(trouble, judged, f"the job failed: {why}")
            self._job.fail(_gone(trouble.error, judged, why))
            return
        rung = self._rung(trouble, judged)
        if self._pending is not None:
            self._join(self._pending, trouble, judged, rung)
            return
        jitter = random.uniform(-1, 1)
        decision = decide(self._settings.restart, self.past, clock.now(), jitter)
        if isinstance(decision, GiveUp):
            self._record(trouble, judged, f"the job failed: {decision.why}")
            self._job.fail(_not_restarted(trouble.error, decision))
            return
        self._begin(trouble, judged, rung, decision)

    def _judged(self, trouble: Trouble) -> Classified:
        """A runner that was replaced may write once more, between its look at the fence and that.

        It does no harm to rows, as a name can be taken once only; but this runner knows nothing
        of what was written, and must read everything anew.
        """
        judged = classify(trouble.causes, self._settings.failure_rules)
        if not judged.others or not self._job.has_replaced_another():
            return judged
        why = "the runner before this one, which has been replaced, has written once more"
        return replace(judged, kind=FailureClass.RECOVERABLE, why=why)

    def _rung(self, trouble: Trouble, judged: Classified) -> Rung:
        region = None if judged.others else trouble.region
        # Going back would only widen the hole: an older position lacks more.
        kind = FailureClass.RECOVERABLE if judged.outside else judged.kind
        known = self._last_rung(region)
        rung = next_rung(self._settings.failover, kind, region, known)
        while known is not None and self._is_the_same(rung, known, region):
            known, rung = rung, next_rung(self._settings.failover, kind, region, rung)
        self._climbed[region] = (rung, self._job.batches(region))
        return rung

    def _last_rung(self, region: str | None) -> Rung | None:
        """The rung of the failure before, if no batch has been committed since."""
        last, then = self._climbed.get(region, (None, -1))
        return last if then == self._job.batches(region) else None

    def _has_tried(self, region: str | None) -> bool:
        return self._last_rung(region) is not None

    def _is_the_same(self, rung: Rung, last: Rung, region: str | None) -> bool:
        """Whether a rung would do what did not help before, because the job is so small."""
        same = self._members(rung, [region]) == self._members(last, [region])
        return same and rung != last and rung.source is last.source

    def _members(self, rung: Rung, failed: Sequence[str | None]) -> frozenset[str]:
        found = (members(self._inputs, region, rung.scope) for region in failed)
        return frozenset().union(*found)

    def _begin(self, trouble: Trouble, judged: Classified, rung: Rung, decision: RestartIn) -> None:
        regions = self._members(rung, [trouble.region])
        shown = NextRestart(
            clock.now() + decision.seconds, decision.attempt, judged.why, self._names(regions)
        )
        self.past.append(Past(clock.now(), decision.seconds))
        due = time.monotonic() + decision.seconds
        self._pending = _Pending(rung, regions, due, shown, [trouble.region])
        text = f"{_words(rung, self._names(regions))} after {decision.seconds:.1f} s"
        number = self._record(trouble, judged, text, rung, decision)
        self._pending.failures.append(number)
        self._interrupt(self._pending)

    def _join(self, pending: _Pending, trouble: Trouble, judged: Classified, rung: Rung) -> None:
        pending.failed.append(trouble.region)
        pending.rung = merge(pending.rung, rung)
        pending.regions = self._members(pending.rung, pending.failed)
        first = pending.failures[0]
        number = self._record(trouble, judged, f"joins failure {first}", rung, merged=first)
        pending.failures.append(number)
        self._interrupt(pending)

    def _names(self, regions: frozenset[str]) -> tuple[str, ...]:
        return () if regions >= set(self._inputs) else tuple(sorted(regions))

    def _record(
        self,
        trouble: Trouble,
        judged: Classified,
        decision: str,
        rung: Rung | None = None,
        restart: RestartIn | None = None,
        merged: int | None = None,
    ) -> int:
        record = replace(
            _plain_record(self._log.next_number(), trouble, judged, decision),
            scope=rung.scope.value if rung else None,
            source=rung.source.value if rung else None,
            attempt=restart.attempt if restart else None,
            delay=restart.seconds if restart else None,
            merged_into=merged,
        )
        self._log.add(record)
        return record.number

    # Carrying out

    def _interrupt(self, pending: _Pending) -> None:
        """Those who will restart stop now; waiting comes after."""
        try:
            if self._concerns_all(pending):
                self._job.halt_all()
            else:
                self._job.halt(sorted(pending.regions))
        except Exception as error:
            _log.exception("what failed did not stop")
            self._give_up(_as_ours(error, "what failed did not stop"))

    def _concerns_all(self, pending: _Pending) -> bool:
        return pending.rung.scope is Scope.ALL or pending.regions >= set(self._inputs)

    def _carry_out(self) -> None:
        pending = self._pending
        assert pending is not None
        self._pending = None
        try:
            if self._concerns_all(pending):
                self._job.revive_all(pending.rung.source)
            else:
                self._job.revive(sorted(pending.regions))
        except Exception as error:
            _log.exception("the restart failed")
            ours = _as_ours(error, "the restart failed")
            self._take(Trouble(ours, causes_of(error)))
            return
        now = clock.now()
        for number in pending.failures:
            self._log.recovered(number, now)


def record_end(
    log: FailureLog, rules: Sequence[Rule], error: BaseException, decision: str = "the job failed"
) -> None:
    """Write down what ends a job without having come to a ``Failover``.

    Whatever goes wrong at that is logged: nothing may hide the error itself. A runner that was
    replaced writes nothing, because the history is its successor's, who numbers its failures too.
    """
    try:
        causes = causes_of(error)
        judged = classify(causes, rules)
        if not _is_by_successor(judged):
            trouble = Trouble(_as_ours(error, "the job failed"), causes)
            log.add(_plain_record(log.next_number(), trouble, judged, decision))
    except Exception:
        _log.exception("a failure was not written to the history")


def _is_by_successor(judged: Classified) -> bool:
    return "Fenced" in judged.cause.name or judged.cause.condition == "FENCED"


def _plain_record(
    number: int, trouble: Trouble, judged: Classified, decision: str
) -> FailureRecord:
    return FailureRecord(
        number=number,
        at=clock.now(),
        region=trouble.region,
        kind=judged.kind.value,
        why=judged.why,
        error=judged.cause.type,
        message=str(trouble.error),
        decision=decision,
    )


def _words(rung: Rung, regions: tuple[str, ...]) -> str:
    who = ", ".join(regions) or "all regions"
    source = "a checkpoint" if rung.source is Source.CHECKPOINT else "where it stands"
    return f"restart of {who} from {source}"


def _not_restarted(error: HoldfastError, decision: GiveUp) -> HoldfastError:
    failed = NotRestarted(
        f"{error.message}\n{decision.why}",
        hint=error.hint or "`holdfast exceptions JOB` shows all failures.",
        **error.ids,
    )
    failed.__cause__ = error
    return failed


def _gone(error: HoldfastError, judged: Classified, why: str) -> HoldfastError:
    failed = NotRestarted(
        f"{judged.why}; {why}",
        hint=error.hint or "To go on without what is lost, see docs/sources.md, failOnDataLoss.",
        **error.ids,
    )
    failed.__cause__ = error
    return failed


def _as_ours(error: BaseException, what: str) -> HoldfastError:
    if isinstance(error, HoldfastError):
        return error
    ours = HoldfastError(f"{what}: {error!r}")
    ours.__cause__ = error
    return ours
