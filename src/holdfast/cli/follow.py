"""A running job as lines, for log files and programs: its states and its checkpoints."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator

from holdfast.cli.launching import GLANCE_SECONDS, Launched
from holdfast.cli.terminal import in_bytes
from holdfast.cli.times import duration
from holdfast.launch import Started
from holdfast.protocol.statistics import CheckpointFigures, Status
from holdfast.server.shapes import own
from holdfast.server.view import JobView, look

Tell = Callable[[JobView, CheckpointFigures | None], None]
"""Called with a new state of the job (no figures) or with a checkpoint that has ended."""


def watch(launched: Launched, started: Started, tell: Tell) -> None:
    """Tell of everything that happens until the job is over."""
    news = News(look(started.running))
    over = False
    while not over:
        over = launched.ends_within(GLANCE_SECONDS)
        view = look(started.running)
        for figures in news.since(view):
            tell(view, figures)


class News:
    """What has happened since the last look. What was there at the first one is not new."""

    def __init__(self, first: JobView) -> None:
        self._state = ""
        self._told = {c.id for c in first.checkpoints if c.triggered < first.started}

    def since(self, view: JobView) -> Iterator[CheckpointFigures | None]:
        """Checkpoints that have ended, then ``None`` if the job has a new state."""
        for figures in view.checkpoints:
            if figures.status is not Status.IN_PROGRESS and figures.id not in self._told:
                self._told.add(figures.id)
                yield figures
        if view.state != self._state:
            self._state = view.state
            yield None


def line(url: str) -> Tell:
    """For people: one line each, on stderr."""

    def tell(view: JobView, figures: CheckpointFigures | None) -> None:
        text = f"job {view.name} {view.state.lower()}"
        if figures is not None:
            text = checkpoint_line(figures)
        elif view.state == "RUNNING":
            text += f" [id={view.id}, url={url}]"
        sys.stderr.write(text + "\n")

    return tell


def checkpoint_line(figures: CheckpointFigures) -> str:
    """How a checkpoint ended."""
    took = duration(figures.duration)
    if figures.status is Status.FAILED:
        return f"checkpoint {figures.id} failed after {took}: {figures.failure}"
    written, full = in_bytes(figures.checkpointed_size), in_bytes(figures.state_size)
    return f"checkpoint {figures.id} completed in {took}, wrote {written} of {full}"


def document(url: str) -> Tell:
    """For programs: one JSON object per line, on stdout."""

    def tell(view: JobView, figures: CheckpointFigures | None) -> None:
        if figures is not None:
            item = {"event": "checkpoint", "job": view.id, **own.checkpoint(figures)}
        else:
            item = {
                "event": "state",
                "job": view.id,
                "name": view.name,
                "state": view.state,
                "at": view.entered[view.state],
                "url": url,
            }
        sys.stdout.write(json.dumps(item) + "\n")
        sys.stdout.flush()

    return tell


def nothing(_: JobView, __: CheckpointFigures | None) -> None:
    """For ``--quiet``."""
