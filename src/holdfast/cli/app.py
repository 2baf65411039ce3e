"""The root of the command line."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from holdfast import __version__
from holdfast.cli import demo, log
from holdfast.cli.terminal import tolerate_any_character

_HELP = """\
Look into, check, copy and restore what a PySpark streaming query has on disk.

A [bold]query log[/bold] is the directory that a Structured Streaming query was given
as checkpointLocation: how far it has read each source (offsets), which
batches are done (commits), and its state. Holdfast reads it and never
changes it. DIR may be a path or a URI such as s3a://bucket/logs/orders.

[bold]Examples[/bold]
  holdfast log inspect /data/logs/orders
  holdfast log copy /data/logs/orders /data/logs/orders-at-41 --batch 41
  holdfast log state /data/logs/orders --where "key.customer = 'C7'"
"""

_EPILOG = """\
[bold]Exit codes[/bold]
    0  fine
    1  verify found problems
    2  wrong use of the command line, or a target that exists already
    3  the query log or the batch was refused
    4  storage or environment failed: disk, network, no Java
   70  a bug in Holdfast
  130  interrupted (Ctrl-C); 143 terminated (SIGTERM)
"""

app = typer.Typer(
    name="holdfast",
    help=_HELP,
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(log.app, name="log")
app.command("demo")(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Say what every command shares."""


def run() -> NoReturn:
    """Run the command line of this process."""
    tolerate_any_character()
    app(prog_name="holdfast")
    sys.exit()
