"""``holdfast demo``: a job, or a plain query, is killed and comes back with the right result."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.failures import guarded


class Story(StrEnum):
    """What is shown."""

    JOB = "job"
    LOG = "log"


@guarded
def demo(
    story: Annotated[
        Story, typer.Argument(help="job: a job goes on after kill -9. log: a plain query's log.")
    ] = Story.JOB,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep all files here. It must not exist.", show_default=False
        ),
    ] = None,
) -> None:
    """Run a job, kill it, look at its checkpoint, let it go on, check the result.

    `holdfast demo log` does the same with a plain Spark query and its query log.
    Runs real Spark on this machine for about a minute; needs no server and no
    download. Ends with 0 if the result is right, else with 1.

    [bold]Example[/bold]
      holdfast demo --keep /tmp/demo
    """
    from holdfast.cli.demo import job_story, log_story

    tell = job_story.tell if story is Story.JOB else log_story.tell
    raise typer.Exit(tell(keep))
