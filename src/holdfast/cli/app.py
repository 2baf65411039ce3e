"""The root of the command line."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from holdfast import __version__
from holdfast.cli import checkpoints, demo, jobs, log, transactions
from holdfast.cli.exceptions import exceptions
from holdfast.cli.run import run as run_job
from holdfast.cli.terminal import tolerate_any_character

_HELP = """\
Fault tolerance for PySpark streaming jobs: run them, see and steer them, look into what they leave.

A [bold]job[/bold] is a script with sources, regions and sinks. Holdfast runs it, takes
checkpoints of all its queries together, and goes on where it was when it was
stopped or killed. JOB is the name, the id or the first digits of the id of a
job that runs on this machine.

A [bold]query log[/bold] is the directory that any Structured Streaming query was given
as checkpointLocation: how far it has read each source (offsets), which
batches are done (commits), and its state. Holdfast reads it and never
changes it. DIR may be a path or a URI such as s3a://bucket/logs/orders.

[bold]Examples[/bold]
  holdfast run job.py --checkpoint-interval 10s
  holdfast list
  holdfast exceptions page-views
  holdfast checkpoint page-views
  holdfast transactions list page-views
  holdfast log inspect /data/logs/orders
  holdfast log copy /data/logs/orders /data/logs/orders-at-41 --batch 41
  holdfast log state /data/logs/orders --where "key.customer = 'C7'"
"""

_EPILOG = """\
[bold]Exit codes[/bold]
    0  fine; a job has finished or was cancelled
    1  verify found problems; a question was answered with no
    2  wrong use of the command line, a script, job or setting that is wrong,
       or a target that exists already
    3  the query log, the batch, the checkpoint or a transaction was refused
    4  storage or environment failed: disk, network, no Java
    5  the job failed, or could not do what it was asked
   70  a bug in Holdfast
   75  run --no-supervisor: this process could not go on, a new one can
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
app.command("run")(run_job)
app.command("list")(jobs.list_jobs)
app.command("info")(jobs.info)
app.command("exceptions")(exceptions)
app.add_typer(checkpoints.app, name="checkpoints")
app.command("checkpoint")(jobs.checkpoint)
app.command("cancel")(jobs.cancel)
app.add_typer(transactions.app, name="transactions")
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
