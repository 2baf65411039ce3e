"""``holdfast run``: run a job in this process and show it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.failures import guarded
from holdfast.errors import UsageError

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
        str | None, typer.Option(metavar="MODE", help="exactly-once or at-least-once.")
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
    quiet: Annotated[bool, typer.Option("--quiet", help="Show errors and the end only.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per line for each event.")
    ] = False,
) -> None:
    """Run a job until its input ends or somebody stops it.

    The script is loaded under another name than __main__, so `job.run()` below
    `if __name__ == "__main__":` does not run. A job that was stopped or killed
    goes on where it was. Ctrl-C stops it in order; a second Ctrl-C at once.

    [bold]Examples[/bold]
      holdfast run job.py --checkpoint-interval 10s
      holdfast run job.py --set state.backend.type=rocksdb -- --input /data/in
    """
    from holdfast.cli.script import load_job
    from holdfast.cli.showing import Display, run_and_show
    from holdfast.launch import launch, prepare

    flags = {"master": master, "interval": interval, "mode": mode, "restore": restore}
    again = _again(sys.argv)  # the script gets an argv of its own
    job = load_job(script, arguments or [], name)
    given = {**pairs(settings or []), **{_FLAGS[k]: v for k, v in flags.items() if v is not None}}
    prepare(job, given, config)
    code = run_and_show(
        lambda watch: launch(job, given, file=config, fresh=fresh, watch=watch),
        job.name,
        Display(as_json, quiet, again),
    )
    raise typer.Exit(code)


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
        elif word != "--fresh" and not word.startswith("--from="):
            kept.append(word)
        if word == "--":
            kept += words
    return shlex.join(["holdfast", *kept])
