"""``holdfast list``, ``info``, ``checkpoint`` and ``cancel``: what runs on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.failures import ExitCode, guarded
from holdfast.cli.options import AsJson
from holdfast.cli.terminal import Terminal, out, prose, spinner
from holdfast.errors import UsageError

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
    found = client.own()
    runner = client.runner
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

    [bold]Example[/bold]
      holdfast cancel page-views --yes
    """
    from holdfast.cli.client import find_job

    client = find_job(job)
    name = client.runner.name
    if not yes and not as_json:
        ask(f"End {name} ({client.runner.job_id}) for good?")
    with spinner("Waiting for the end"):
        state = client.cancel()
    if as_json:
        Terminal(as_json).json({"id": client.runner.job_id, "name": name, "state": state})
    else:
        prose(out(), f"{name} is {state.lower()}.")


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
