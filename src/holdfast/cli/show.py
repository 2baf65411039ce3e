"""Reports as people read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.tables import grid, table
from holdfast.cli.terminal import counted, in_bytes, prose

if TYPE_CHECKING:
    from holdfast.cli.state import Exported, StateRows
    from holdfast.querylog import (
        Activity,
        CopyReport,
        Inspection,
        OperatorReport,
        SourceReport,
        StoreReport,
        Verification,
    )

_LISTED = 8


def inspection(console: Console, report: Inspection) -> None:
    """``holdfast log inspect``."""
    console.print(_facts(report))
    if report.activity.advice:
        prose(console, report.activity.advice)
    if report.sources:
        _heading(console, "Sources")
        console.print(_sources(report))
    if report.operators:
        _heading(console, f"State after batch {report.state_batch}")
        console.print(_operators(report.operators))
    if report.not_restorable:
        _heading(console, "Batches that cannot be restored")
        console.print(_not_restorable(report))


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, style="bold")


def _facts(report: Inspection) -> Table:
    facts = {
        "query log": report.uri,
        "query id": report.query_id,
        "committed": _ranges(report.committed) or "no batch yet",
        "unfinished": _unfinished(report.unfinished),
        "restorable": _ranges(report.restorable) or "no batch",
        "watermark": _watermark(report.watermark_ms),
        "activity": activity(report.activity),
    }
    made = grid("bold", "")
    for name, value in facts.items():
        made.add_row(name, Text(value, overflow="fold"))
    return made


def _unfinished(batches: tuple[int, ...]) -> str:
    if not batches:
        return "none"
    return f"{_ranges(batches)} (planned, not committed: runs again with the same offsets)"


def _watermark(milliseconds: int | None) -> str:
    if not milliseconds:
        return "none"
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms since 1970"
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def activity(found: Activity) -> str:
    """One sentence on whether a query is running."""
    if found.running:
        return f"a query is running: {found.reason}"
    if found.maybe_running:
        return f"a query may be running: {found.reason}"
    return f"no sign of a running query: {found.reason}"


def _sources(report: Inspection) -> Table:
    made = table("source", "kind", "position", "offset")
    for source in report.sources:
        for at, (position, offset) in enumerate(_positions(report, source)):
            first = (source.name, source.kind) if at == 0 else ("", "")
            made.add_row(*first, position, Text(_compact(offset), overflow="fold"))
    return made


def _positions(report: Inspection, source: SourceReport) -> list[tuple[str, Any]]:
    planned = report.unfinished[0] if report.unfinished else None
    found = [
        (f"start of batch {report.batch}", source.start, report.batch is not None),
        (f"end of batch {report.batch}", source.end, report.batch is not None),
        (f"planned by batch {planned}", source.planned, planned is not None),
    ]
    return [(position, offset) for position, offset, applies in found if applies]


def _compact(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _operators(operators: tuple[OperatorReport, ...]) -> Table:
    made = table("operator", "backend", "format", "partitions", "keys", "size")
    for column in made.columns[3:]:
        column.justify = "right"
    for each in operators:
        shown = _keys_and_size(each)
        made.add_row(
            f"{each.id} {each.kind}", each.backend, each.format, str(each.partitions), *shown
        )
        if len(each.stores) > 1:
            for store in each.stores:
                made.add_row(f"  {store.name}", "", "", "", *_keys_and_size(store))
        if each.variables:
            made.add_row(f"  variables: {', '.join(each.variables)}")
    return made


def _keys_and_size(report: OperatorReport | StoreReport) -> tuple[str, str]:
    if report.keys is None:
        keys = "not counted"
    else:
        keys = f"{report.keys:,}" if report.keys_exact else f"at most {report.keys:,}"
    return keys, in_bytes(report.bytes)


def _not_restorable(report: Inspection) -> Table:
    made = table("batch", "why")
    batches = sorted(report.not_restorable, reverse=True)
    for batch in batches[:_LISTED]:
        made.add_row(str(batch), Text(report.not_restorable[batch], overflow="fold"))
    if len(batches) > _LISTED:
        made.add_row("…", f"and {len(batches) - _LISTED} older ones (all of them with --json)")
    return made


def verification(console: Console, report: Verification) -> None:
    """``holdfast log verify``."""
    for problem in report.problems:
        prose(console, problem.path, "bold")
        prose(console, f"  {problem.what}")
        if problem.hint:
            prose(console, f"  hint: {problem.hint}")
    if report.problems:
        console.print()
    checked = f"{counted(report.files, 'file')}, {in_bytes(report.bytes)}"
    what = "Nothing" if report.batch is None else f"Batch {report.batch}: {checked}"
    verdict = "no problems" if report.ok else counted(len(report.problems), "problem")
    style = "bold green" if report.ok else "bold red"
    console.print(Text.assemble(f"{what} checked, ", (verdict, style), "."))


def copy(console: Console, report: CopyReport, left_out: list[int]) -> None:
    """``holdfast log copy``; ``left_out`` are the batches after the one that was copied."""
    done = "Linked" if report.linked else "Copied"
    size = f"{counted(report.files, 'file')}, {in_bytes(report.bytes)}"
    prose(console, f"{done} batch {report.batch} of {report.source}")
    prose(console, f"  to {report.destination}")
    prose(console, f"  {size}, query id {report.query_id}")
    console.print()
    console.print("Next: start the query with")
    option = f'  .option("checkpointLocation", "{report.destination}")'
    console.print(option, markup=False, soft_wrap=True)
    if report.unfinished is not None:
        prose(
            console,
            f"Batch {report.unfinished} was planned and not finished. Its plan came along: "
            "it runs again with the same offsets.",
        )
    if left_out:
        prose(console, _reprocessing(left_out))


def _reprocessing(left_out: list[int]) -> str:
    one = len(left_out) == 1
    batches = f"Batch {left_out[0]} is" if one else f"Batches {_ranges(tuple(left_out))} are"
    return (
        f"{batches} not in the copy: rows read since batch {left_out[0] - 1} are processed again. "
        "A sink that remembers batch ids, such as Spark's file sink, skips ids it has seen: "
        "give it a new output directory."
    )


def state(console: Console, rows: StateRows) -> None:
    """``holdfast log state``."""
    console.print(f"State of operator {rows.operator} after batch {rows.batch}", style="bold")
    made = table(*rows.columns)
    for cells in rows.cells:
        made.add_row(*(_cell(cell) for cell in cells))
    console.print(made)
    if rows.more:
        shown = counted(len(rows.cells), "row")
        console.print(f"{shown} shown; there are more. See --limit, --where and --export.")
    else:
        console.print(f"{counted(len(rows.cells), 'row')}.")


def _cell(value: str | None) -> Text:
    return Text("null", style="dim") if value is None else Text(value, overflow="fold")


def exported(console: Console, report: Exported) -> None:
    """``holdfast log state --export``."""
    size = f"{counted(report.rows, 'row')}, {in_bytes(report.bytes)}"
    prose(console, f"Wrote {report.file}")
    prose(console, f"  {size}: state of operator {report.operator} after batch {report.batch}")


def _ranges(batches: tuple[int, ...]) -> str:
    from holdfast.querylog.selection import batch_ranges

    return batch_ranges(batches, _LISTED)
