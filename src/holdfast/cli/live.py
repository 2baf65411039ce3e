"""A running job on the terminal, drawn anew twice a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli.launching import GLANCE_SECONDS, Launched
from holdfast.cli.show_failures import latest_line, restart_line
from holdfast.cli.show_jobs import columns, partitions_behind, waiting
from holdfast.cli.terminal import if_possible, in_bytes
from holdfast.cli.times import duration, number, rate
from holdfast.launch import Started
from holdfast.protocol.statistics import CheckpointFigures, Status
from holdfast.server.view import ChannelView, JobView, RegionView, look

_CHECKPOINTS_SHOWN = 6
_BAR = 16
_STATES = {
    "RUNNING": "bold green",
    "FINISHED": "bold green",
    "RESTARTING": "bold yellow",
    "FAILING": "bold red",
    "FAILED": "bold red",
    "CANCELLING": "bold yellow",
}
_STATUS = {Status.COMPLETED: ("✓", "green"), Status.FAILED: ("✗", "red")}


def watch(console: Console, launched: Launched, started: Started) -> None:
    """Show the job until it is over."""
    with if_possible(), Live(console=console, auto_refresh=False) as live:
        while True:
            over = launched.ends_within(GLANCE_SECONDS)
            live.update(frame(look(started.running), started.url), refresh=True)
            if over:
                break
    with if_possible():
        console.print()


def frame(view: JobView, url: str) -> RenderableType:
    """One picture of the job."""
    parts: list[RenderableType] = [_header(view, url), Text(), _regions(view)]
    lags = (partitions_behind(region.uid, region.partitions) for region in view.regions)
    parts += [Text(line, "dim") for line in lags if line]
    if view.channels:
        parts += [Text(), _channels(view.channels)]
    if lines := _troubles(view):
        parts += [Text(), *(Text(line, "yellow") for line in lines)]
    if view.checkpoints:
        parts += [Text(), _checkpoints(view.checkpoints[-_CHECKPOINTS_SHOWN:])]
    if view.state in ("RUNNING", "RESTARTING"):
        parts += [Text(), Text("Ctrl-C stops; the next run goes on from there", style="dim")]
    return Group(*parts)


def _troubles(view: JobView) -> list[str]:
    lines = [restart_line(view), latest_line(view)]
    lines += [waiting(asdict(sink), view.now) for sink in view.sinks]
    return [line for line in lines if line]


def _header(view: JobView, url: str) -> Table:
    made = Table.grid(padding=(0, 2))
    state = Text(view.state, _STATES.get(view.state, "bold"))
    made.add_row(Text(view.name, "bold"), state, duration(view.duration), Text(url, "dim"))
    outer = Table.grid()
    outer.add_row(made)
    outer.add_row(Text(view.id, "dim"))
    return outer


def _regions(view: JobView) -> Table:
    made = columns("region", "batch", "rows/s", "rows", "state rows", "behind", "backpressure")
    for region in view.regions:
        made.add_row(
            _name(region),
            "-" if region.batch < 0 else f"{region.batch:,}",
            rate(region.rows_per_second),
            number(region.rows),
            number(region.state_rows),
            behind(region),
            _backpressure(region, view.duration),
        )
    return made


def _name(region: RegionView) -> Text:
    is_halted = region.status == "SCHEDULED"
    return Text.assemble(region.uid, (" waits for its restart" if is_halted else "", "yellow"))


def behind(region: RegionView) -> str:
    """How much input a region has not read: what its sources tell, or batches in channels."""
    if region.lag:
        return f"{region.lag:,} rows"
    return f"{region.behind} batches" if region.behind > 1 else "-"


def _backpressure(region: RegionView, seconds: float) -> Text:
    share = region.backpressured / seconds if seconds > 0 else 0.0
    return Text(f"{share:.0%}" if share >= 0.005 else "-", "yellow" if share > 0.1 else "")


def _channels(channels: Sequence[ChannelView]) -> Table:
    made = columns("channel", "unread", "capacity")
    made.add_column(Text(""))
    for channel in channels:
        filled = min(1.0, channel.unread / channel.capacity)
        made.add_row(
            Text(f"{channel.uid} → {', '.join(channel.readers)}"),
            in_bytes(channel.unread),
            in_bytes(channel.capacity),
            _bar(filled),
        )
    return made


def _bar(filled: float) -> Text:
    full = round(filled * _BAR)
    style = "yellow" if filled > 0.8 else "cyan"
    return Text.assemble(("━" * full, style), ("━" * (_BAR - full), "bright_black"))


def _checkpoints(figures: Sequence[CheckpointFigures]) -> Table:
    made = columns(
        "checkpoint", "", "duration", "written", "full size", "alignment", "mode", left=2
    )
    made.columns[0].justify = "right"
    made.columns[-1].justify = "left"
    for each in reversed(figures):
        made.add_row(
            str(each.id),
            mark(each.status),
            duration(each.duration) if each.duration is not None else "in progress",
            in_bytes(each.checkpointed_size),
            in_bytes(each.state_size),
            duration(each.alignment) if each.alignment else "-",
            Text(mode(each.unaligned, each.full, each.cause), "dim"),
        )
    return made


def mark(status: Status) -> Text:
    """A sign for how a checkpoint ended."""
    sign, style = _STATUS.get(status, ("…", "dim"))
    return Text(sign, style)


def mode(unaligned: bool, full: bool, cause: str) -> str:
    """How a checkpoint was taken and, when it was not the clock, who asked for it."""
    words = ["unaligned" if unaligned else "aligned", "full" if full else "incremental"]
    return ", ".join(words if cause == "PERIODIC" else [*words, f"by {cause.lower()}"])
