"""The failures of a job as people read them: all in a table, or one with everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.show_failures import brief, next_restart, took
from holdfast.cli.show_jobs import heading, named
from holdfast.cli.tables import table
from holdfast.cli.terminal import prose
from holdfast.cli.times import clock, duration

Document = Mapping[str, Any]
_STYLES = {"NonRecoverable": "red", "PartitionDataMissing": "yellow", "Environment": "yellow"}


def listing(console: Console, found: Document, now: float) -> None:
    """``holdfast exceptions JOB``."""
    name = found["job"]["name"] or found["job"]["id"]
    if not found["failures"]:
        prose(console, f"Nothing has failed: there is no failure of {name} on record.")
        return
    made = _columns()
    for each in found["failures"]:
        made.add_row(*_row(each))
    console.print(made)
    if left_out := found["total"] - len(found["failures"]):
        prose(console, f"{left_out:,} older ones: --last {found['total']} shows all.", "dim")
    if found.get("next_restart"):
        prose(console, f"Next: {next_restart(found['next_restart'], now)}", "yellow")


def _columns() -> Table:
    made = table("id", "when", "region", "class", "error", "decision", "recovered\nafter")
    # Where there is little room, other columns are folded.
    made.columns[3].no_wrap = True
    made.columns[-1].no_wrap = True
    made.columns[-1].justify = "right"
    return made


def _row(each: Document) -> list[Text | str]:
    return [
        str(each["number"]),
        clock(each["at"]),
        Text(each["region"] or "-"),
        Text(each["kind"], _STYLES.get(each["kind"], "")),
        Text(brief(each)),
        Text(each["decision"]),
        took(each),
    ]


def one(console: Console, each: Document) -> None:
    """``holdfast exceptions JOB --details ID``."""
    console.print(named(_facts(each)))
    heading(console, "Message")
    prose(console, each["message"])


def _facts(each: Document) -> dict[str, str]:
    attempt, delay, recovered = each["attempt"], each["delay"], each["recovered"]
    return {
        "failure": str(each["number"]),
        "when": clock(each["at"]),
        "region": each["region"] or "none: it was the job or its process",
        "class": f"{each['kind']}: {each['why']}",
        "error": each["error"],
        "decision": each["decision"],
        "scope": each["scope"] or "",
        "from": each["source"] or "",
        "restart": "" if attempt is None else f"number {attempt}, after {duration(delay)}",
        "joins": "" if each["merged_into"] is None else f"failure {each['merged_into']}",
        "recovered": "no" if recovered is None else f"{clock(recovered)}, after {took(each)}",
    }
