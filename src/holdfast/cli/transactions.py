"""``holdfast transactions``: what sinks have neither committed nor aborted, and settling it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.failures import ExitCode, guarded
from holdfast.cli.jobs import ask
from holdfast.cli.options import AsJson
from holdfast.cli.targets import (
    Given,
    ScriptArguments,
    ScriptConfig,
    ScriptJob,
    ScriptSettings,
    Stopped,
    TargetName,
    target_of,
)
from holdfast.cli.terminal import Terminal, counted, out, spinner
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.cli.client import Client
    from holdfast.runtime.fencing import Fence
    from holdfast.runtime.stopped import StoppedJob
    from holdfast.runtime.transactions import Listing, PendingTransaction, Settled

_HELP = """\
See and settle what sinks have prepared and neither committed nor aborted.

Rows of a sink become visible when the checkpoint that covers them is
complete. Until then they wait in a [bold]transaction[/bold]. A completed checkpoint
[bold]owns[/bold] its transactions: it has promised the rows and nobody reads them
again, so they must be committed. What nobody owns must be aborted: its rows
come again.

A job does both by itself, while it runs and when it starts. These commands
are for looking, and for a job that will not be started soon. TARGET is the
name or id of a running job, or a script: then --set, --config and arguments
are those of `holdfast run`.

[bold]Examples[/bold]
  holdfast transactions list page-views
  holdfast transactions list job.py -- --input /data/in
  holdfast transactions commit job.py
  holdfast transactions abort job.py --sink out --checkpoint 9

[bold]Exit codes[/bold]
  0 everything that was asked for is settled; 3 something was refused;
  4 a sink could not be asked, or could not do it
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Sink = Annotated[str | None, typer.Option("--sink", metavar="UID", help="Those of one sink only.")]
Checkpoint = Annotated[
    int | None,
    typer.Option("--checkpoint", metavar="N", min=1, help="Those of one checkpoint only."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Also what would be refused. Rows come twice, or get lost.")
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Also if a runner on another machine has not left the job. If it lives, it stops.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list")
@guarded
def list_pending(
    target: TargetName,
    arguments: ScriptArguments = None,
    settings: ScriptSettings = None,
    config: ScriptConfig = None,
    job: ScriptJob = None,
    as_json: AsJson = False,
) -> None:
    """List pending transactions: since when, whose, what will become of them.

    Changes nothing. A sink whose store does not answer is listed with the
    reason, and the exit code is 4.

    [bold]Examples[/bold]
      holdfast transactions list page-views
      holdfast transactions list job.py --json
    """
    from holdfast.cli import show_transactions

    with target_of(Given(target, arguments, settings, config, job)) as found:
        document = _listed(found)
    if as_json:
        Terminal(as_json).json(document)
    else:
        show_transactions.listing(out(), document)
    if document["unreachable"]:
        raise typer.Exit(ExitCode.ENVIRONMENT)


def _listed(found: Client | Stopped) -> dict[str, Any]:
    if not isinstance(found, Stopped):
        return found.transactions()
    stopped = _what_is_left(found)
    with spinner("Asking the sinks"):
        return {"job": _job(stopped), **stopped.pending().to_dict()}


@app.command("commit")
@guarded
def commit(
    target: TargetName,
    arguments: ScriptArguments = None,
    *,
    sink: Sink = None,
    checkpoint: Checkpoint = None,
    force: Force = False,
    take_over: TakeOver = False,
    yes: Yes = False,
    settings: ScriptSettings = None,
    config: ScriptConfig = None,
    job: ScriptJob = None,
    as_json: AsJson = False,
) -> None:
    """Commit what completed checkpoints own.

    Safe at any time, and as often as you like. A running job is told to try now
    instead of waiting for its next try. What nobody owns is refused: the job will
    read those rows again, and they would be there twice.

    [bold]Examples[/bold]
      holdfast transactions commit page-views
      holdfast transactions commit job.py --sink out
    """
    asked = _Asked("commit", sink, checkpoint, force, take_over, yes or as_json)
    with target_of(Given(target, arguments, settings, config, job)) as found:
        if isinstance(found, Stopped):
            _settle(found, asked, as_json)
        else:
            _hurry(found, asked, as_json)


@app.command("abort")
@guarded
def abort(
    target: TargetName,
    arguments: ScriptArguments = None,
    *,
    sink: Sink = None,
    checkpoint: Checkpoint = None,
    force: Force = False,
    take_over: TakeOver = False,
    yes: Yes = False,
    settings: ScriptSettings = None,
    config: ScriptConfig = None,
    job: ScriptJob = None,
    as_json: AsJson = False,
) -> None:
    """Abort what nobody owns, of a job that does not run.

    A running job does so by itself, and is left alone. What a completed
    checkpoint owns is refused: nobody reads those rows again, they would be lost.
    --force does it: the way out if a store will never take the rows of an epoch.

    [bold]Examples[/bold]
      holdfast transactions abort job.py --checkpoint 9
      holdfast transactions abort job.py --sink out --force
    """
    asked = _Asked("abort", sink, checkpoint, force, take_over, yes or as_json)
    with target_of(Given(target, arguments, settings, config, job)) as found:
        if not isinstance(found, Stopped):
            raise UsageError(
                "the job is running, and takes care of its transactions itself",
                hint="It aborts what nobody owns. To abort by hand, stop it first: Ctrl-C where it "
                "runs.",
                job=found.runner.name,
                pid=found.runner.process.pid,
            )
        _settle(found, asked, as_json)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be done with which transactions."""

    do: str
    sink: str | None
    checkpoint: int | None
    force: bool
    take_over: bool
    sure: bool

    def fits(self, sink: str, checkpoint: int | None) -> bool:
        """Whether it is about this one."""
        return self.sink in (None, sink) and self.checkpoint in (None, checkpoint)


# A job that runs


def _hurry(client: Client, asked: _Asked, as_json: bool) -> None:
    if asked.force:
        raise UsageError(
            "--force is for a job that does not run",
            hint="The runner commits what its checkpoints own; stop it first to do otherwise.",
            job=client.runner.name,
        )
    _refuse_unknown_sink(asked, [sink["uid"] for sink in client.own()["sinks"]])
    listed = client.transactions()
    chosen = [
        each for each in listed["transactions"] if asked.fits(each["sink"], each["checkpoint"])
    ]
    with spinner("Trying to commit"):
        tried = client.commit_now(asked.sink)["settled"] if chosen else []
    _tell(listed["job"], [_of_running(each, tried) for each in chosen], as_json)


def _of_running(listed: dict[str, Any], tried: Sequence[dict[str, Any]]) -> dict[str, Any]:
    settled = {"sink": listed["sink"], "checkpoint": listed["checkpoint"]}
    if listed["owner"] != "completed checkpoint":
        reason = f"{listed['fate']}; the runner takes care of it"
        return {**settled, "outcome": "refused", "reason": reason}
    for each in tried:
        if each["sink"] == listed["sink"]:
            return {**settled, "outcome": each["outcome"], "reason": each["reason"]}
    return {**settled, "outcome": "committed", "reason": None}  # before it was asked to


# A job that does not


def _settle(target: Stopped, asked: _Asked, as_json: bool) -> None:
    from holdfast.cli import show_transactions
    from holdfast.launch import claimed, jvm
    from holdfast.runtime.stopped import holding_epoch, refuse_running_elsewhere

    work = _what_is_left(target).work
    if not asked.take_over:
        refuse_running_elsewhere(work)
    told: list[dict[str, Any]] = []
    with claimed(target.graph.name, target.settings) as claim, holding_epoch(work) as fence:

        def start_spark() -> Any:
            session = target.start_spark()
            claim.spark_started(jvm())
            return session

        left = _what_is_left(target)
        _refuse_unknown_sink(asked, left.sinks)
        with spinner("Asking the sinks"):
            listing = left.pending()
        chosen = [t for t in listing.transactions if asked.fits(t.sink, t.checkpoint)]
        _confirm(asked, chosen)
        done = _done(left, asked, chosen, fence, start_spark)
        for settled in itertools.chain(done, _unasked(listing, asked)):
            told.append(settled.to_dict())
            if not as_json:
                show_transactions.settled(out(), told[-1])
    _tell(_job(left), told, as_json, shown=True)


def _done(
    left: StoppedJob,
    asked: _Asked,
    chosen: Sequence[PendingTransaction],
    fence: Fence,
    start_spark: Callable[[], Any],
) -> Iterable[Settled]:
    if asked.do == "commit":
        return left.commit(chosen, asked.force, fence, start_spark)
    return left.abort(chosen, asked.force, fence)


def _unasked(listing: Listing, asked: _Asked) -> Iterable[Settled]:
    """Sinks that could not be asked what they have."""
    from holdfast.runtime.transactions import Outcome, Settled

    for sink, error in listing.unreachable.items():
        if asked.sink in (None, sink):
            yield Settled(sink, asked.checkpoint, Outcome.FAILED, error)


def _what_is_left(target: Stopped) -> StoppedJob:
    from holdfast.runtime.stopped import find_stopped

    found = find_stopped(target.graph, target.settings)
    if found is None:
        raise UsageError(
            "the job has never run here, so it has no transactions",
            hint="Give the settings and arguments that it is run with: the working directory is "
            f"{target.settings.work_dir}.",
            job=target.graph.name,
        )
    return found


def _job(left: StoppedJob) -> dict[str, Any]:
    from holdfast.server.shapes.own import pending_of

    return pending_of(left.work.job_id, left.graph.name, left.ended or "STOPPED")


def _refuse_unknown_sink(asked: _Asked, known: Sequence[str]) -> None:
    if asked.sink is not None and asked.sink not in known:
        raise UsageError(
            f"the job has no sink {asked.sink!r} with transactions",
            hint=f"There are: {', '.join(known) or 'none'}.",
        )


def _confirm(asked: _Asked, chosen: Sequence[PendingTransaction]) -> None:
    """Ask before something is done that would be refused without --force."""
    from holdfast.runtime.transactions import why_not_abort, why_not_commit

    refused = why_not_commit if asked.do == "commit" else why_not_abort
    forced = [t for t in chosen if refused(t, False) and not refused(t, True)]
    if not asked.force or not forced or asked.sure:
        return
    what = counted(len(forced), "transaction")
    if asked.do == "commit":
        ask(f"Commit {what} that nobody owns? The job reads these rows again: they come twice.")
    else:
        which = ", ".join(f"{t.sink} (checkpoint {t.checkpoint})" for t in forced)
        ask(f"Abort {what} that completed checkpoints have promised? All rows of {which} are lost.")


def _tell(
    job: dict[str, Any], settled: Sequence[dict[str, Any]], as_json: bool, shown: bool = False
) -> None:
    from holdfast.cli import show_transactions

    if as_json:
        Terminal(as_json).json({"job": job, "settled": list(settled)})
    elif not settled:
        show_transactions.nothing(out(), job)
    elif not shown:
        for each in settled:
            show_transactions.settled(out(), each)
    outcomes = {each["outcome"] for each in settled}
    if outcomes & {"failed", "going on"}:
        raise typer.Exit(ExitCode.ENVIRONMENT)
    if "refused" in outcomes:
        raise typer.Exit(ExitCode.REFUSED)
