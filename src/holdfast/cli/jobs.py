"""``holdfast list``, ``info``, ``checkpoint`` and ``cancel``: what runs on this machine."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.failures import ExitCode, guarded
from holdfast.cli.options import AsJson
from holdfast.cli.terminal import Terminal, out, prose, spinner
from holdfast.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from holdfast.server.registry import Runner

JobName = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Name, id, or the first digits of the id of a running job.",
        show_default=False,
    ),
]


RESTARTING, SUSPENDED = "RESTARTING", "SUSPENDED"


class Restarting(EnvironmentProblem):
    """The job's runner died, and the next one cannot be talked to yet."""

    code = "RESTARTING"
    retryable = True


@guarded
def list_jobs(
    every: Annotated[
        bool, typer.Option("--all", help="Also jobs that are starting or ending.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the jobs that run on this machine.

    [bold]Example[/bold]
      holdfast list
    """
    from holdfast.cli import show_jobs
    from holdfast.server.registry import Registry

    found = [_entry(runner) for runner in Registry().running()]
    shown = [entry for entry in found if every or entry["state"] not in ("STARTING", "ENDING")]
    if as_json:
        Terminal(as_json).json(shown)
    else:
        show_jobs.listing(out(), shown)


def _entry(runner: Runner) -> dict[str, Any]:
    from holdfast.cli.client import Client, Unreachable

    entry = {
        "id": runner.job_id,
        "name": runner.name,
        "state": "STARTING" if runner.url is None else "ENDING",
        "started": runner.started,
        "pid": runner.process.pid,
        "url": runner.url,
        "work_dir": runner.work_dir,
    }
    if runner.restart is not None and runner.is_restarting:
        return {**entry, "state": RESTARTING, "restart": asdict(runner.restart)}
    try:
        return {**entry, "state": Client(runner).get("/status")["status"]}
    except Unreachable:
        return entry


@guarded
def info(job: JobName, as_json: AsJson = False) -> None:
    """Show a running job: regions, channels, checkpoints, settings.

    [bold]Example[/bold]
      holdfast info page-views
    """
    from holdfast.cli import show_jobs
    from holdfast.cli.client import find_job

    client = find_job(job)
    runner = client.runner
    if runner.is_restarting:
        entry = _entry(runner)
        Terminal(as_json).json(entry) if as_json else show_jobs.restarting(out(), entry)
        return
    found = client.own()
    where = {"url": runner.url, "pid": runner.process.pid, "work_dir": runner.work_dir}
    if as_json:
        Terminal(as_json).json({**found, **where})
    else:
        show_jobs.information(out(), {**found, **where})


@guarded
def checkpoint(
    job: JobName,
    full: Annotated[
        bool, typer.Option("--full", help="Copy everything, also what older checkpoints have.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint of a running job now, and wait for it.

    [bold]Example[/bold]
      holdfast checkpoint page-views --full
    """
    from holdfast.cli.client import find_job

    client = find_job(job)
    if client.runner.is_restarting:
        raise Restarting(
            "the job's runner died, and its restart is due or under way",
            hint="Try again when `holdfast list` shows it as RUNNING.",
            job=client.runner.name,
        )
    with spinner("Taking a checkpoint"):
        number = client.trigger_checkpoint(full)
    details = client.get(f"/checkpoints/details/{number}")
    path = details["external_path"]
    if as_json:
        Terminal(as_json).json({"id": number, "path": path, "full": full})
    else:
        out().print(f"Checkpoint {number} completed.", soft_wrap=True)
        out().print(path, soft_wrap=True, markup=False)


@guarded
def cancel(
    job: JobName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """End a running job for good.

    What becomes of its checkpoints is the setting
    execution.checkpointing.externalized-checkpoint-retention. To stop a job that
    shall go on later, press Ctrl-C where it runs, or send SIGTERM to its pid.

    A job whose runner has died and is not back yet is only stopped: it keeps its
    checkpoints, and the next run goes on.

    [bold]Example[/bold]
      holdfast cancel page-views --yes
    """
    from holdfast.cli.client import find_job

    client = find_job(job)
    runner, name = client.runner, client.runner.name
    if not yes and not as_json:
        ask(f"End {name} ({runner.job_id}) for good?")
    with spinner("Waiting for the end"):
        state = _stop_restarting(runner) if runner.is_restarting else client.cancel()
    if as_json:
        Terminal(as_json).json({"id": runner.job_id, "name": name, "state": state})
    else:
        kept = " It keeps its checkpoints; the next run goes on." if state == SUSPENDED else ""
        prose(out(), f"{name} is {state.lower()}.{kept}")


def _stop_restarting(runner: Runner) -> str:
    """Nobody is there to cancel the job in order; but its supervisor starts it no more."""
    from holdfast.cli.client import poll

    stopped = runner.supervisor or runner.process
    with suppress(ProcessLookupError):
        os.kill(stopped.pid, signal.SIGTERM)
    poll(lambda: stopped.runs, lambda runs: not runs)
    return SUSPENDED


def ask(question: str) -> None:
    """Go on after a yes only."""
    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask", hint="Say --yes.")
    try:
        agreed = typer.confirm(question)
    except typer.Abort:  # Ctrl-D
        agreed = False
    if not agreed:
        raise typer.Exit(ExitCode.PROBLEMS_FOUND)
