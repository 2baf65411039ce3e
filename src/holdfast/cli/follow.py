"""A running job as lines, for log files and programs: states, checkpoints, failures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator

from holdfast.cli.launching import GLANCE_SECONDS, Launched
from holdfast.cli.show_failures import FailureNews, Happened, restart_line
from holdfast.cli.terminal import if_possible, in_bytes
from holdfast.cli.times import duration
from holdfast.launch import Started
from holdfast.protocol.statistics import CheckpointFigures, Status
from holdfast.server.shapes import own
from holdfast.server.view import JobView, look

Tell = Callable[[JobView, CheckpointFigures | Happened | None], None]
"""Called with a new state of the job (``None``), a checkpoint that has ended, or a failure."""


def watch(launched: Launched, started: Started, tell: Tell) -> None:
    """Tell of everything that happens until the job is over."""
    first = look(started.running)
    news, failures = News(first), FailureNews(first)
    over = False
    while not over:
        over = launched.ends_within(GLANCE_SECONDS)
        view = look(started.running)
        for happened in failures.since(view):
            with if_possible():
                tell(view, happened)
        for figures in news.since(view):
            with if_possible():
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

    def tell(view: JobView, news: CheckpointFigures | Happened | None) -> None:
        if isinstance(news, Happened):
            text = news.line
        elif news is not None:
            text = checkpoint_line(news)
        else:
            text = state_line(view, url)
        sys.stderr.write(f"{text}\n" if text else "")

    return tell


def state_line(view: JobView, url: str) -> str:
    """The state that a job is in now."""
    text = f"job {view.name} {view.state.lower()}"
    if view.state == "RUNNING":
        return f"{text} [id={view.id}, url={url}]"
    due = restart_line(view)
    return f"{text}, {due}" if due else text


def checkpoint_line(figures: CheckpointFigures) -> str:
    """How a checkpoint ended."""
    took = duration(figures.duration)
    if figures.status is Status.FAILED:
        return f"checkpoint {figures.id} failed after {took}: {figures.failure}"
    written, full = in_bytes(figures.checkpointed_size), in_bytes(figures.state_size)
    return f"checkpoint {figures.id} completed in {took}, wrote {written} of {full}"


def document(url: str) -> Tell:
    """For programs: one JSON object per line, on stdout."""

    def tell(view: JobView, news: CheckpointFigures | Happened | None) -> None:
        item: dict[str, object]
        if isinstance(news, Happened):
            item = {"event": news.event, "job": view.id, **news.document}
        elif news is not None:
            item = {"event": "checkpoint", "job": view.id, **own.checkpoint(news)}
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


def nothing(_: JobView, __: CheckpointFigures | Happened | None) -> None:
    """For ``--quiet``."""
