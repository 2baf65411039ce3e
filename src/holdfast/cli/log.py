"""``holdfast log``: inspect, verify, copy, state.

The packages that do the work are imported when a command runs, so that ``--help`` is quick.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.cli import show
from holdfast.cli.failures import ExitCode, guarded
from holdfast.cli.options import AsJson, Batch, Directory
from holdfast.cli.terminal import Terminal, byte_progress, out

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Inspect, verify, copy a query log; read its state.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@guarded
def inspect(directory: Directory, as_json: AsJson = False) -> None:
    """Show what a query log says about its query, without Spark.

    Query id, sources with their offsets, batches, watermark, stateful operators
    with the size of their state, which batches can be restored, and whether a
    query seems to be running on it.

    [bold]Example[/bold]
      holdfast log inspect /data/logs/orders
    """
    from holdfast import querylog

    report = querylog.inspect(directory)
    if as_json:
        activity = {**asdict(report.activity), "advice": report.activity.advice}
        Terminal(as_json).json({**asdict(report), "activity": activity})
    else:
        show.inspection(out(), report)


@app.command()
@guarded
def verify(directory: Directory, batch: Batch = None, as_json: AsJson = False) -> None:
    """Check every file that a restart from a batch needs, byte by byte.

    Ends with 0 if all is well and with 1 if there are problems.

    [bold]Example[/bold]
      holdfast log verify /data/logs/orders --batch 41
    """
    from holdfast import querylog

    with byte_progress("Verifying") as progress:
        report = querylog.verify(directory, batch, progress)
    if as_json:
        Terminal(as_json).json({**asdict(report), "ok": report.ok})
    else:
        show.verification(out(), report)
    if not report.ok:
        raise typer.Exit(ExitCode.PROBLEMS_FOUND)


@app.command()
@guarded
def copy(
    directory: Directory,
    destination: Annotated[
        str,
        typer.Argument(metavar="DEST", help="Where to; must not exist.", show_default=False),
    ],
    batch: Batch = None,
    new_id: Annotated[
        bool, typer.Option("--new-id", help="Give the copy a query id of its own.")
    ] = False,
    link: Annotated[
        bool, typer.Option("--link", help="Hard links instead of copies; same disk only.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy what is needed to restart a query, now or at an older batch.

    DEST appears all at once and durable, or not at all. DIR is not changed.
    Without --batch the copy goes on where the original stands, with the plan of
    the batch that was running, if any. Use --new-id when both queries shall run
    side by side.

    [bold]Example[/bold]
      holdfast log copy /data/logs/orders /data/logs/orders-at-41 --batch 41
    """
    from holdfast import querylog
    from holdfast.querylog.activity import find_activity
    from holdfast.querylog.log import open_log

    log = open_log(directory)
    activity = find_activity(log, time.time())
    with byte_progress("Linking" if link else "Copying") as progress:
        report = querylog.copy(
            directory, destination, batch, new_id=new_id, link=link, progress=progress
        )
    if activity.advice:
        Terminal(as_json).warn(f"{show.activity(activity)}\n  {activity.advice}")
    if as_json:
        Terminal(as_json).json(asdict(report))
    else:
        later = [b for b in (*log.committed, *log.unfinished) if b > report.batch]
        show.copy(out(), report, [b for b in later if b != report.unfinished])


@app.command()
@guarded
def state(
    directory: Directory,
    *,
    operator: Annotated[
        int, typer.Option(metavar="K", min=0, help="Which stateful operator; see inspect.")
    ] = 0,
    store: Annotated[
        str | None,
        typer.Option(metavar="S", help="Which store; for a join, left or right."),
    ] = None,
    variable: Annotated[
        str | None,
        typer.Option("--var", metavar="V", help="Which variable of a transformWithState."),
    ] = None,
    batch: Batch = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="A condition on the columns, e.g. \"key.k = 'a' and value.n > 5\"."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="L", min=1, help="At most so many rows. (default: 20; all with --export)"
        ),
    ] = None,
    export: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.parquet", help="Write one Parquet file, which must not exist, instead."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of an operator as rows, one per key.

    This starts Spark, which takes some seconds. Columns are partition_id, key.*
    and value.*; times are in UTC.

    [bold]Examples[/bold]
      holdfast log state /data/logs/orders --where "value.count > 100"
      holdfast log state /data/logs/orders --export orders.parquet
    """
    from holdfast.cli.state import StateRequest, export_rows, fetch_rows

    request = StateRequest(directory, operator, store, variable, batch, where, limit)
    if export is not None:
        exported = export_rows(request, export)
        if as_json:
            Terminal(as_json).json(asdict(exported))
        else:
            show.exported(out(), exported)
        return
    rows = fetch_rows(request, as_json)
    if as_json:
        Terminal(as_json).text(rows.to_json())
    else:
        show.state(out(), rows)
