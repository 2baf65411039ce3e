"""``holdfast demo``: a streaming query is killed, looked into, taken back and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.failures import guarded


@guarded
def demo(
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep all files here. It must not exist.", show_default=False
        ),
    ] = None,
) -> None:
    """Kill a streaming query, look into what it left, go back, resume.

    Runs real Spark on this machine for about a minute; needs no server and no
    download. Ends with 0 if the resumed query has the right result, else with 1.

    [bold]Example[/bold]
      holdfast demo --keep /tmp/demo
    """
    from holdfast.cli.demo.story import tell

    raise typer.Exit(tell(keep))
