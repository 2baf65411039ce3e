"""``holdfast checkpoints``: of a running job, below a directory, or one on disk."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.cli.failures import guarded
from holdfast.cli.jobs import JobName
from holdfast.cli.options import AsJson
from holdfast.cli.terminal import Terminal, out
from holdfast.errors import UsageError

_DEFAULT = "job"
_ALL = 10**9
_HELP = """\
Show checkpoints: of a running job, below a directory, or one on disk.

[bold]Examples[/bold]
  holdfast checkpoints page-views --last 20
  holdfast checkpoints page-views --details 17
  holdfast checkpoints show /data/checkpoints/2052…bd5f/chk-17
"""


class _JobUnlessNamed(TyperGroup):
    """``holdfast checkpoints JOB`` is short for ``holdfast checkpoints job JOB``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the default command in front of what is none."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_JobUnlessNamed,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(_DEFAULT)
@guarded
def of_job(
    job: JobName,
    last: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 10,
    details: Annotated[
        int | None, typer.Option(metavar="ID", min=1, help="One of them, region by region.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the checkpoints of a running job; the word `job` may be left out.

    [bold]Example[/bold]
      holdfast checkpoints page-views --details 17
    """
    from holdfast.cli import show_checkpoints
    from holdfast.cli.client import find_job

    client = find_job(job)
    found = client.get("/holdfast/checkpoints", last=last if details is None else _ALL)
    if details is not None:
        found = _one(found, details)
    if as_json:
        Terminal(as_json).json(found)
    elif details is None:
        show_checkpoints.history(out(), found)
    else:
        show_checkpoints.one_of_job(out(), found)


def _one(found: dict[str, Any], number: int) -> dict[str, Any]:
    for each in found["checkpoints"]:
        if each["id"] == number:
            return dict(each)
    raise UsageError("the job has no such checkpoint on record", checkpoint_id=number)


@app.command("show")
@guarded
def show_one(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A checkpoint: …/chk-7", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Show what a checkpoint on disk consists of, without its job.

    [bold]Example[/bold]
      holdfast checkpoints show /data/checkpoints/2052…bd5f/chk-17
    """
    from holdfast.checkpoints.store import read_checkpoint
    from holdfast.cli import show_checkpoints

    metadata, _ = read_checkpoint(path)
    if as_json:
        Terminal(as_json).json(asdict(metadata))
    else:
        show_checkpoints.metadata(out(), metadata, path)


@app.command("list")
@guarded
def list_below(
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="A directory of checkpoints.", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """List the completed checkpoints below a directory, the newest first.

    [bold]Example[/bold]
      holdfast checkpoints list /data/checkpoints
    """
    from holdfast.cli import show_checkpoints

    found = sorted(_below(directory), key=lambda each: each["completed"], reverse=True)
    if as_json:
        Terminal(as_json).json(found)
    else:
        show_checkpoints.below(out(), found)


def _below(directory: str) -> list[dict[str, Any]]:
    from holdfast.checkpoints.metadata import decode
    from holdfast.storage import open_storage

    storage = open_storage(directory)
    found = []
    for info in storage.list():
        if not re.fullmatch(r"(.*/)?chk-\d+/_metadata", info.path):
            continue
        path = storage.locate(info.path.removesuffix("/_metadata"))
        metadata = decode(storage.read(info.path), path)
        found.append(
            {
                "id": metadata.id,
                "job_id": metadata.job_id,
                "job_name": metadata.job_name,
                "completed": metadata.completed,
                "size": metadata.size,
                "path": path,
                "name": info.path.removesuffix("/_metadata"),
            }
        )
    return found
