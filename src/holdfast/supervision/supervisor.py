"""The supervisor: starts a runner, and after its death another one, as the restart strategy says.

It imports no Spark and none of the user's code, so whatever kills a runner leaves it alone.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.protocol.restarts import GiveUp, Past, RestartIn, decide, merges
from holdfast.server.processes import own_process
from holdfast.server.registry import Registry, Restart, Runner
from holdfast.supervision.diagnosis import note
from holdfast.supervision.inheritance import Death, to_environ
from holdfast.supervision.known import Known
from holdfast.supervision.logs import set_aside
from holdfast.supervision.messages import Claimed
from holdfast.supervision.outside import Outside
from holdfast.supervision.oversight import Oversight
from holdfast.supervision.verdicts import Answer, Died, Halfway, Verdict, verdict

_log = logging.getLogger(__name__)


class RunnerLost(HoldfastError):
    """The runner died, and no restart was due."""

    code = "RUNNER_LOST"


class Telling(Protocol):
    """How a supervisor is heard by people and programs."""

    def restarting(self, job: Claimed | None, why: str, restart: RestartIn) -> None:
        """A runner died; the next one starts soon."""
        ...

    def failed(self, job: Claimed | None) -> None:
        """There will be no other runner; why is raised."""
        ...

    def stopped(self, job: Claimed | None, number: int) -> None:
        """A signal ended it while no runner was there."""
        ...


class Supervisor:
    """Keeps one job running."""

    def __init__(self, outside: Outside, telling: Telling, registry: Registry) -> None:
        self._outside = outside
        self._telling = telling
        self._registry = registry
        self._known = Known()
        self._waiting: Runner | None = None

    def run(self) -> int:
        """Until the job is over, or must not restart; returns the exit code."""
        try:
            return self._run()
        finally:
            if self._waiting is not None:
                with suppress(OSError):
                    self._registry.remove(self._waiting)
            self._write_down_deaths()

    def _run(self) -> int:
        is_restart = False
        while True:
            found = self._one_runner(is_restart)
            if isinstance(found, Answer):
                return found.code
            if isinstance(found, Halfway):
                raise self._ended_halfway(found)
            number = self._wait_for(self._restart_after(found))
            if number is not None:
                self._telling.stopped(self._known.job, number)
                return 128 + number
            is_restart = True

    def _one_runner(self, is_restart: bool) -> Verdict:
        try:
            runner = self._outside.start(to_environ(self._known.inheritance))
        except OSError as error:  # no memory, no processes left
            return Died(f"the runner could not be started: {error.strerror or error}")
        return verdict(Oversight(self._outside, runner, self._known).until_its_end(is_restart))

    # Deciding

    def _restart_after(self, died: Died) -> RestartIn:
        """Says so to everyone; raises if there is none."""
        known, now = self._known, self._outside.now()
        # One that died while a restart was due already is not counted twice.
        past = known.past[:-1] if merges(known.past, now) else known.past
        decision = self._decide(past, now)
        if isinstance(decision, GiveUp):
            known.died(Death(now, died.why, f"the job failed: {decision.why}"))
            self._note(f"{died.why}; {decision.why}")
            self._telling.failed(known.job)
            raise self._lost(died, decision)
        known.past = (*past, Past(now, decision.seconds))
        said = f"a new process after {decision.seconds:.1f} s"
        known.died(Death(now, died.why, said, decision.attempt, decision.seconds))
        self._note(f"{died.why}; {said}: {decision.why}")
        self._telling.restarting(known.job, died.why, decision)
        self._put_on_record(decision, died)
        return decision

    def _decide(self, past: Sequence[Past], now: float) -> RestartIn | GiveUp:
        terms = self._known.terms
        if terms is None:
            return GiveUp("It had not yet read the settings that say whether it is restarted")
        return decide(terms.restart, past, now, self._outside.jitter())

    def _ended_halfway(self, found: Halfway) -> HoldfastError:
        self._known.died(Death(self._outside.now(), found.why, "the job has ended"))
        self._note(found.why)
        self._telling.failed(self._known.job)
        return RunnerLost(
            found.why,
            hint="What sinks have open is shown by `holdfast transactions list`; the next run goes "
            "on where the job was.",
        )

    def _lost(self, died: Died, decision: GiveUp) -> HoldfastError:
        hint = None if self._known.log is None else f"The whole story is in {self._known.log}."
        return RunnerLost(f"{died.why}\n{decision.why}", hint=hint)

    def _note(self, text: str) -> None:
        if self._known.log is not None:
            note(self._known.log, text)

    # Waiting

    def _wait_for(self, restart: RestartIn) -> int | None:
        """Returns the signal that came instead, if one did."""
        due = self._outside.clock() + restart.seconds
        while (left := due - self._outside.clock()) > 0:
            self._outside.wait(None, left)
            number = self._outside.next_signal()
            if number == signal.SIGTSTP:
                self._outside.halt()
            elif number is not None:
                return number
        if self._known.log is not None:
            set_aside(self._known.log)
        return None

    def _put_on_record(self, decision: RestartIn, died: Died) -> None:
        """Others see that the job waits; what its dead runner had on record is void."""
        job = self._known.job
        if job is None:
            return
        restart = Restart(self._outside.now() + decision.seconds, decision.attempt, died.why)
        me = own_process()
        runner = Runner(job.job_id, job.name, job.work_dir, job.started, me, supervisor=me)
        self._waiting = replace(runner, restart=restart, history=self._known.history)
        try:
            self._registry.write(self._waiting)
        except HoldfastError as error:  # a full disk is no reason to give up
            self._note(str(error))

    # The end

    def _write_down_deaths(self) -> None:
        """What no later runner will: not where that needs Spark."""
        from holdfast.storage import needs_spark

        known = self._known
        if not known.deaths or known.history is None or needs_spark(known.history):
            return
        from holdfast.runtime.failure_log import FailureLog
        from holdfast.supervision.recording import record

        try:
            record(FailureLog(known.history), known.deaths)
        except Exception:
            _log.exception("the last deaths of the runner are not in the job's history")
