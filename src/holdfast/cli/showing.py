"""A run from its start to its exit code, as the terminal shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli import follow, live
from holdfast.cli.causes import essence
from holdfast.cli.failures import exit_code
from holdfast.cli.launching import Launched, Stopping, end_java
from holdfast.cli.noise import noise_in
from holdfast.cli.terminal import counted, err, if_possible, out, prose, spinner
from holdfast.cli.times import duration
from holdfast.errors import HoldfastError
from holdfast.launch import Outcome, Started, Watch
from holdfast.protocol.statistics import Status
from holdfast.runtime.sentinel import JvmLost
from holdfast.server.registry import home
from holdfast.server.view import JobView, RegionView, look
from holdfast.supervision.messages import Dying, LogAt, Over
from holdfast.supervision.reporting import Reporter


@dataclass(frozen=True, slots=True)
class Display:
    """How a run is shown."""

    as_json: bool
    quiet: bool
    again: str
    """The command that goes on with the job."""

    @property
    def is_live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return sys.stderr.isatty() and not self.as_json and not self.quiet


def run_and_show(
    launch: Callable[[Watch], Outcome], name: str, display: Display, reporter: Reporter
) -> int:
    """Run a job; returns the exit code, or raises what the job failed of."""
    log = home() / "logs" / f"{name}.log"
    with noise_in(log):
        reporter.tell(LogAt(str(log)))
        launched = Launched(launch)
        try:
            with _starting(display):
                started = launched.started()
            stopping = Stopping(started, lambda by: _tell_stopping(by, display))
            reporter.when_abandoned(stopping.abandoned)
            with stopping.answering():
                _show(launched, started, display)
                outcome = launched.outcome()
            last = look(started.running)
            code = _code(outcome, stopping)
            _report(outcome, code, reporter)
        finally:
            end_java()
    if outcome.failure is not None:
        raise _with_log(outcome.failure, log)
    with if_possible():
        _tell_end(outcome, last, display)
    return code


def _code(outcome: Outcome, stopping: Stopping) -> int:
    if outcome.failure is not None:
        return exit_code(outcome.failure)
    return stopping.exit_code or 0 if outcome.state == "SUSPENDED" else 0


def _report(outcome: Outcome, code: int, reporter: Reporter) -> None:
    """A job that has ended need not start again; one that has lost its JVM should."""
    if isinstance(outcome.failure, JvmLost):
        reporter.tell(Dying(outcome.failure.message))
    else:
        reporter.tell(Over(outcome.state, code))
    reporter.close()


def _starting(display: Display) -> AbstractContextManager[None]:
    return spinner("Starting Spark") if display.is_live else nullcontext()


def _show(launched: Launched, started: Started, display: Display) -> None:
    if display.is_live:
        live.watch(err(), launched, started)
    elif display.as_json:
        follow.watch(launched, started, follow.document(started.url))
    else:
        tell = follow.nothing if display.quiet else follow.line(started.url)
        follow.watch(launched, started, tell)


def _tell_stopping(by: str, display: Display) -> None:
    # Live shows the state; a line between its pictures would tear them.
    if not display.is_live and not display.as_json:
        sys.stderr.write(f"stopping because of {by}; once more ends it at once\n")


def _with_log(failure: HoldfastError, log: Path) -> HoldfastError:
    """The failure in brief; all of it is in the log."""
    with if_possible(), log.open("a") as file:
        file.write(f"{failure}\n")
    hint = " ".join(filter(None, [failure.hint, f"The whole story is in {log}."]))
    return type(failure)(essence(failure.message), hint=hint, **failure.ids)


def _tell_end(outcome: Outcome, last: JobView, display: Display) -> None:
    if display.as_json:
        item = {"event": "end", "job": last.id, "state": last.state, "path": outcome.checkpoint}
        sys.stdout.write(json.dumps(item) + "\n")
        sys.stdout.flush()
        return
    prose(out(), summary(outcome, last))
    if outcome.state == "SUSPENDED":
        prose(out(), f"The next run goes on exactly here: {display.again}")


def summary(outcome: Outcome, last: JobView) -> str:
    """One line about a run that is over."""
    taken = [c for c in last.checkpoints if c.triggered >= last.started]
    completed = sum(c.status is Status.COMPLETED for c in taken)
    rows = sum(region.rows for region in last.regions if _reads_a_source(last, region))
    word = {"SUSPENDED": "stopped"}.get(outcome.state, outcome.state.lower())
    parts = [
        f"{last.name} {word} after {duration(last.duration)}",
        f"{counted(rows, 'row')} read",
        f"{counted(completed, 'checkpoint')} completed",
    ]
    path = f"\nLast checkpoint: {outcome.checkpoint}" if outcome.checkpoint else ""
    return ", ".join(parts) + path + _owing(outcome)


def _owing(outcome: Outcome) -> str:
    """A run that goes on commits by itself; nobody else does."""
    if not outcome.owing or outcome.state == "SUSPENDED":
        return ""
    sinks = ", ".join(outcome.owing)
    return f"\nNot committed yet by {sinks}; `holdfast transactions` lists and settles it."


def _reads_a_source(view: JobView, region: RegionView) -> bool:
    return any(view.region(uid) is None for uid in region.reads)
