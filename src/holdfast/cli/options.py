"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Directory = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="The query log: the checkpointLocation of a query.", show_default=False
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        metavar="N",
        min=0,
        help="A committed batch. (default: the newest)",
        show_default=False,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, for programs.", show_default=False)
]
