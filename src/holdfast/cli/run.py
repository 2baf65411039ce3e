"""``holdfast run``: run a job and show it, under a supervisor unless that is declined."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.failures import guarded
from holdfast.cli.terminal import Terminal
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.supervision.reporting import Reporter

UNSUPERVISED = "--no-supervisor"

_FLAGS = {
    "master": "holdfast.spark.master",
    "interval": "execution.checkpointing.interval",
    "mode": "execution.checkpointing.mode",
    "restore": "execution.state-recovery.path",
}


@guarded
def run(
    script: Annotated[
        Path, typer.Argument(metavar="JOB.py", help="The script that declares the job.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGS]", help="Arguments for the script.", show_default=False),
    ] = None,
    *,
    master: Annotated[str | None, typer.Option(metavar="M", help="Spark master.")] = None,
    interval: Annotated[
        str | None,
        typer.Option("--checkpoint-interval", metavar="TIME", help="Such as 10s."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="exactly-once, at-least-once or at-most-once."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting; may be repeated."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Settings. (default: $HOLDFAST_CONFIG, else ./holdfast.toml)"
        ),
    ] = None,
    restore: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help="Start from this checkpoint.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, whatever the last run has left.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="Which job, if there are several.")
    ] = None,
    no_supervisor: Annotated[
        bool, typer.Option(UNSUPERVISED, help="Run in this process; its death ends the job.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show errors and the end only.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per line for each event.")
    ] = False,
) -> None:
    """Run a job until its input ends or somebody stops it.

    The script is loaded under another name than __main__, so `job.run()` below
    `if __name__ == "__main__":` does not run. A job that was stopped or killed
    goes on where it was. Ctrl-C stops it in order; a second Ctrl-C at once.

    This process only watches: the job runs in another, its runner. A runner that
    is killed, loses its JVM, hangs or gets nothing done is replaced by a new one
    as restart-strategy.type says.

    [bold]Exit codes[/bold]
        0  the job has finished or was cancelled
        2  the script, the job or a setting is wrong, or the job runs already
      3-4  its data or its storage could not be read, or there is no Java
        5  the job failed, or its runner died and no restart was due
       70  a bug in Holdfast
       75  the process cannot go on, and a new one can: with --no-supervisor, or
           when Spark's JVM died before the job had begun
      130  stopped by Ctrl-C; 143 by SIGTERM, 129 by SIGHUP; the next run goes on

    [bold]Examples[/bold]
      holdfast run job.py --checkpoint-interval 10s
      holdfast run job.py --set state.backend.type=rocksdb -- --input /data/in
    """
    command = None if no_supervisor else runner_command(sys.orig_argv, sys.argv)
    if command is not None:
        from holdfast.cli.supervising import supervise

        raise typer.Exit(supervise(command, as_json, _again(sys.argv)))
    from holdfast.supervision.reporting import connect

    reporter = connect(os.environ)
    from holdfast.cli.script import load_job
    from holdfast.cli.showing import Display, run_and_show
    from holdfast.launch import launch, prepare

    flags = {"master": master, "interval": interval, "mode": mode, "restore": restore}
    again = _again(sys.argv)  # the script gets an argv of its own
    job = load_job(script, arguments or [], name)
    given = {**pairs(settings or []), **{_FLAGS[k]: v for k, v in flags.items() if v is not None}}
    prepare(job, given, config)

    def run_it() -> int:
        return run_and_show(
            lambda watch: launch(
                job, given, file=config, fresh=fresh, watch=watch, reporter=reporter
            ),
            job.name,
            Display(as_json, quiet, again),
            reporter,
        )

    raise typer.Exit(_or_lost(run_it, Terminal(as_json), reporter))


def _or_lost(run_it: Callable[[], int], terminal: Terminal, reporter: Reporter) -> int:
    """The exit code of the run; that of a process which cannot go on if it was one."""
    from holdfast.runtime.sentinel import JvmLost
    from holdfast.supervision.messages import Dying
    from holdfast.supervision.verdicts import LOST

    try:
        return run_it()
    except MemoryError:
        reporter.tell(Dying("out of memory"))
        return LOST
    except JvmLost as error:
        if reporter.supervisor is None:  # who would else tell it
            terminal.error(error.to_dict(), str(error))
        return LOST


def runner_command(original: Sequence[str], arguments: Sequence[str]) -> list[str] | None:
    """How to start this very command as a runner; ``None`` inside another program.

    ``original`` also has what Python itself was given, such as ``-m holdfast.cli``.
    """
    if list(arguments[1:2]) != ["run"]:
        return None
    python = original[1 : len(original) - len(arguments) + 1]
    return [sys.executable, *python, "run", UNSUPERVISED, *arguments[2:]]


def pairs(settings: list[str]) -> dict[str, str]:
    """What ``--set`` was given."""
    found = {}
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals or not key.strip():
            raise UsageError("--set wants KEY=VALUE", given=each)
        found[key.strip()] = value.strip()
    return found


def _again(command: list[str]) -> str:
    """What was typed, without what would not go on with the job."""
    kept: list[str] = []
    words = iter(command[1:])
    for word in words:
        if word == "--from":
            next(words, None)
        elif word not in ("--fresh", UNSUPERVISED) and not word.startswith("--from="):
            kept.append(word)
        if word == "--":
            kept += words
    return shlex.join(["holdfast", *kept])
