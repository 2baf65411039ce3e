"""The two streams: results on stdout, everything else on stderr."""

from __future__ import annotations

import io
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

# A file or pipe has no width; tables should not be folded for a terminal that is not there.
_WIDE = 10_000


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a command writes to. With ``as_json`` results and errors are for programs."""

    as_json: bool

    def json(self, document: Any) -> None:
        """The result, for programs."""
        self.text(json.dumps(document, indent=2, ensure_ascii=False, default=str))

    def text(self, text: str) -> None:
        """The result as it is."""
        sys.stdout.write(text + "\n")

    def warn(self, text: str) -> None:
        """Something the user should know and the result does not say."""
        _print_labelled("warning:", "bold yellow", text)

    def error(self, document: Mapping[str, Any], text: str) -> None:
        """Why there is no result; ``document`` is the same for programs."""
        if self.as_json:
            sys.stderr.write(json.dumps({"error": document}, ensure_ascii=False) + "\n")
        else:
            _print_labelled(f"error {document['code']}:", "bold red", text)


def out() -> Console:
    """For people's results."""
    return _Console(file=sys.stdout, highlight=False, width=_width(sys.stdout))


def err() -> Console:
    """For progress, warnings and errors."""
    return _Console(file=sys.stderr, highlight=False, width=_width(sys.stderr))


@contextmanager
def if_possible() -> Iterator[None]:
    """For a job, which is not to end because a terminal is gone or the disk of a log is full."""
    with suppress(OSError):
        yield


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end as it would if it had written without rich."""
        raise BrokenPipeError


def _width(stream: Any) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else _WIDE


def _print_labelled(label: str, style: str, text: str) -> None:
    first, *rest = _folded(f"{label} {text}", err().width)
    line = Text(first)
    line.stylize(style, 0, len(label))
    for each in (line, *map(Text, rest)):
        err().print(each, soft_wrap=True)


def prose(console: Console, text: str, style: str = "") -> None:
    """Text folded between words. A path stays in one piece, for whoever copies it."""
    for line in _folded(text, console.width):
        console.print(Text(line, style), soft_wrap=True)


def _folded(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return lines


@contextmanager
def byte_progress(doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar that is called with the bytes done and the bytes in all; nothing without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
    )
    with progress.Progress(*columns, console=err(), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def spinner(doing: str) -> Iterator[None]:
    """A sign of life while something takes long; nothing without a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with err().status(doing):
        yield


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def in_bytes(size: int) -> str:
    """``23.4 kB``."""
    return decimal(size)


def tolerate_any_character() -> None:
    """Escape what the terminal's encoding lacks, where Python would raise."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
