"""Running jobs as people read them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.causes import essence
from holdfast.cli.show_failures import facts as failure_facts
from holdfast.cli.tables import grid, table
from holdfast.cli.terminal import counted, in_bytes, prose
from holdfast.cli.times import clock, duration, number, rate
from holdfast.protocol.lag import PartitionLag, furthest_behind

Document = Mapping[str, Any]
_UNUSUAL = 5.0
"""A commit that takes so long is told of, also when it has not failed."""
_PARTITIONS = 4
"""So many of those that are behind are named."""


def listing(console: Console, entries: Sequence[Document]) -> None:
    """``holdfast list``."""
    if not entries:
        prose(console, "No job is running here.")
        return
    made = columns("name", "state", "uptime", "id", "pid", "url", left=6)
    for entry in entries:
        made.add_row(
            Text(entry["name"], "bold"),
            _state(entry),
            duration(max(0.0, time.time() - entry["started"])),
            entry["id"],
            str(entry["pid"]),
            entry["url"] or "-",
        )
    console.print(made)


def _state(entry: Document) -> str:
    if "restart" not in entry:
        return str(entry["state"])
    left = duration(max(0.0, entry["restart"]["at"] - time.time()))
    return f"{entry['state']} (attempt {entry['restart']['attempt']} in {left})"


def restarting(console: Console, entry: Document) -> None:
    """``holdfast info`` of a job whose runner died."""
    facts = {
        "job": entry["name"],
        "id": entry["id"],
        "state": _state(entry),
        "failure": entry["restart"]["why"],
        "pid": str(entry["pid"]),
        "work": entry["work_dir"],
    }
    console.print(named(facts))


def information(console: Console, job: Document) -> None:
    """``holdfast info``."""
    console.print(_facts(job))
    heading(console, "Regions")
    console.print(_regions(job["regions"]))
    for region in job["regions"]:
        lags = [PartitionLag(**each) for each in region["partitions"]]
        if line := partitions_behind(region["uid"], lags):
            console.print(Text(line, "dim"))
    if job["channels"]:
        heading(console, "Channels")
        console.print(_channels(job["channels"]))
    for sink in job["sinks"]:
        if line := waiting(sink, time.time()):
            console.print()
            prose(console, line, "yellow")
    changed = [each for each in job["settings"] if each["origin"] != "default"]
    if changed:
        heading(console, "Settings that are not defaults")
        console.print(_settings(changed))


def _facts(job: Document) -> Table:
    counts, latest = job["checkpoints"], job["checkpoints"]["latest"]
    facts = {
        "job": job["name"],
        "id": job["id"],
        "state": f"{job['state']}, since {clock(job['started'])} ({duration(job['duration'])})",
        "failure": job["failure"]["message"] if job["failure"] else "",
        **failure_facts(job, time.time()),
        "mode": job["mode"],
        "url": job["url"] or "",
        "pid": str(job["pid"]),
        "work": job["work_dir"],
        "restored": _restored(job["restored"]),
        "checkpoints": f"{counts['completed']} completed, {counts['failed']} failed, "
        f"{counts['in_progress']} in progress",
        "newest": latest["path"] if latest else "",
    }
    return named(facts)


def named(facts: Mapping[str, str]) -> Table:
    """Names and values; those without a value are left out."""
    made = grid("bold", "")
    for name, value in facts.items():
        if value:
            made.add_row(name, Text(value, overflow="fold"))
    return made


def _restored(restored: Document | None) -> str:
    return f"checkpoint {restored['id']}, {restored['path']}" if restored else ""


def _regions(regions: Sequence[Document]) -> Table:
    made = columns(
        "region", "reads", "status", "batch", "rows/s", "rows", "state", "behind", left=3
    )
    for region in regions:
        state = f"{counted(region['state_rows'], 'row')}, {in_bytes(region['state_bytes'])}"
        made.add_row(
            Text(region["uid"], "bold"),
            Text(", ".join(region["reads"])),
            region["status"],
            "-" if region["batch"] < 0 else f"{region['batch']:,}",
            rate(region["rows_per_second"]),
            number(region["rows"]),
            state if region["state_rows"] else "-",
            _behind(region),
        )
    return made


def _behind(region: Document) -> str:
    if region["lag"]:
        return counted(region["lag"], "row")
    return counted(region["behind"], "segment") if region["behind"] else "-"


def partitions_behind(uid: str, partitions: Sequence[PartitionLag]) -> str | None:
    """A line with the partitions of Kafka that are behind most; one alone is in the table."""
    worst, others = furthest_behind(partitions, _PARTITIONS)
    if len(partitions) < 2 or not worst:
        return None
    named = [f"{each.topic}-{each.partition} {each.behind:,}" for each in worst]
    more = [f"{others} more of {len(partitions)}"] if others else []
    return f"{uid} behind: {', '.join([*named, *more])}"


def _channels(channels: Sequence[Document]) -> Table:
    made = columns("channel", "readers", "unread", "capacity", left=2)
    for channel in channels:
        made.add_row(
            Text(channel["uid"], "bold"),
            Text(", ".join(channel["readers"])),
            in_bytes(channel["unread"]),
            in_bytes(channel["capacity"]),
        )
    return made


def _settings(settings: Sequence[Document]) -> Table:
    made = grid("", "", "dim")
    for each in settings:
        made.add_row(Text(each["key"]), Text(each["value"], overflow="fold"), Text(each["origin"]))
    return made


def waiting(sink: Document, now: float) -> str | None:
    """A line about a sink that cannot commit; nothing if all is well."""
    if sink["waiting_for"] is None or sink["since"] is None:
        return None
    seconds = max(0.0, now - sink["since"])
    if not sink["tries"] and seconds < _UNUSUAL:
        return None
    failed = f"{sink['tries']} {'try' if sink['tries'] == 1 else 'tries'} failed"
    reason = essence(sink["error"] or "").partition("\n")[0]
    text = f"{sink['uid']}: waiting to commit checkpoint {sink['waiting_for']} for "
    return text + duration(seconds) + (f", {failed}: {reason}" if sink["tries"] else "")


def columns(*names: str, left: int = 1) -> Table:
    """A table whose columns after the first ``left`` hold numbers."""
    made = table(*names)
    made.padding = (0, 2, 0, 0)
    for column in made.columns[left:]:
        column.justify = "right"
    return made


def heading(console: Console, text: str) -> None:
    """A line above a table."""
    console.print()
    console.print(text, style="bold")
