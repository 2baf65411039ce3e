"""``holdfast exceptions``: what a job has failed of, while it runs and after its end."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.failures import guarded
from holdfast.cli.options import AsJson
from holdfast.cli.targets import (
    Given,
    ScriptArguments,
    ScriptConfig,
    ScriptJob,
    ScriptSettings,
    Stopped,
    target_of,
)
from holdfast.cli.terminal import Terminal, out
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.cli.client import Client
    from holdfast.server.registry import Runner

_ALL = 10**9
_JOB_ID = re.compile(r"[0-9a-f]{32}")

Place = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Name or id of a running job, the script of one that need not run, or its "
        "directory below history/.",
        show_default=False,
    ),
]


@guarded
def exceptions(
    place: Place,
    arguments: ScriptArguments = None,
    *,
    last: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 10,
    details: Annotated[
        int | None, typer.Option(metavar="ID", min=1, help="One of them, with its whole message.")
    ] = None,
    settings: ScriptSettings = None,
    config: ScriptConfig = None,
    job: ScriptJob = None,
    as_json: AsJson = False,
) -> None:
    """Show what a job has failed of, and what was done about it.

    Every failure has a [bold]class[/bold]. NonRecoverable: a restart cannot help (your code,
    a permission, a schema), and the job ends. PartitionDataMissing: files are
    gone, and the job goes back to a checkpoint. Environment: a node, a disk, a
    network. Recoverable: all else. The [bold]decision[/bold] says who restarted, from what and
    after which wait, or why nobody did; a failure while a restart was due joins
    the one before it.

    Failures of all runs are kept in the history directory of the job. If it runs,
    it is asked. If it does not, give its script, with the --set, --config and
    arguments of `holdfast run`, or the directory itself, with a / in it.

    [bold]Examples[/bold]
      holdfast exceptions page-views
      holdfast exceptions page-views --details 3
      holdfast exceptions job.py --last 50 -- --input /data/in
      holdfast exceptions /data/history/20520a1b5f5e4c6db2c9d33ad60dbd5f --json
    """
    from holdfast.cli import show_exceptions

    given = Given(place, arguments, settings, config, job)
    found = _found(given, last if details is None else _ALL)
    shown = found if details is None else _one(found, details)
    if as_json:
        Terminal(as_json).json(shown)
    elif details is None:
        show_exceptions.listing(out(), shown, time.time())
    else:
        show_exceptions.one(out(), shown)


def _found(given: Given, last: int) -> dict[str, Any]:
    if not given.is_script and ("/" in given.target or given.target in (".", "..")):
        return _of_directory(given, last)
    with target_of(given) as target:
        return _of_stopped(target, last) if isinstance(target, Stopped) else _ask(target, last)


def _one(found: dict[str, Any], number: int) -> dict[str, Any]:
    for each in found["failures"]:
        if each["number"] == number:
            return dict(each)
    newest = max((each["number"] for each in found["failures"]), default=None)
    raise UsageError(
        f"the job has no failure {number} on record",
        hint="There is none at all." if newest is None else f"The newest is {newest}.",
    )


def _ask(client: Client, last: int) -> dict[str, Any]:
    if client.runner.is_restarting:
        return _of_restarting(client.runner, last)
    return client.get("/holdfast/failures", last=last)


def _of_restarting(runner: Runner, last: int) -> dict[str, Any]:
    """Nobody can be asked. The newest death is not on record yet: `holdfast info` tells it."""
    from holdfast.cli.client import Unreachable
    from holdfast.storage import needs_spark

    if runner.history is None or needs_spark(runner.history):
        raise Unreachable(
            "the job's process died, and the next one does not answer yet",
            hint="Try again when it has been restarted; holdfast info says when that is.",
            job=runner.name,
        )
    whose = {"id": runner.job_id, "name": runner.name, "state": "RESTARTING"}
    return _read(runner.history, whose, last)


def _of_stopped(stopped: Stopped, last: int) -> dict[str, Any]:
    from holdfast.runtime.running import history_directory
    from holdfast.runtime.work import WorkDirectory
    from holdfast.storage import needs_spark

    name, settings = stopped.graph.name, stopped.settings
    work = WorkDirectory.find(settings.work_dir, name)
    if work is None:
        raise UsageError(
            "the job has never run here, so nothing has failed",
            hint="Give the settings and arguments that it is run with: the working directory is "
            f"{settings.work_dir}.",
            job=name,
        )
    if needs_spark(settings.history_dir):
        stopped.start_spark()
    attempt = work.current()
    state = attempt.ended if attempt is not None else None
    whose = {"id": work.job_id, "name": name, "state": state or "STOPPED"}
    return _read(history_directory(settings, work), whose, last)


def _of_directory(given: Given, last: int) -> dict[str, Any]:
    """The directory of one job, which need not be known to anybody any more."""
    from holdfast.storage import open_storage

    if given.arguments or given.settings or given.config or given.job:
        raise UsageError(
            "--set, --config, --job and arguments are for scripts", target=given.target
        )
    location = given.target.rstrip("/")
    inside = {info.path.partition("/")[0] for info in open_storage(location).list()}
    if not inside or any(map(_JOB_ID.fullmatch, inside)):
        raise _not_a_history(location, sorted(filter(_JOB_ID.fullmatch, inside)))
    whose = {"id": location.rpartition("/")[2], "name": None, "state": None}
    return _read(location, whose, last)


def _not_a_history(location: str, jobs: list[str]) -> UsageError:
    hint = "There is nothing here. A job keeps it below holdfast.history.dir, under its id."
    if jobs:
        hint = f"Choose one of its jobs: {', '.join(f'{location}/{job}' for job in jobs)}"
    return UsageError("this is not the history of one job", hint=hint, path=location)


def _read(history: str, whose: dict[str, Any], last: int) -> dict[str, Any]:
    from holdfast.runtime.failure_log import FailureLog
    from holdfast.server.shapes.own import newest_failures

    return {"job": whose, **newest_failures(FailureLog(history).all(), last)}
