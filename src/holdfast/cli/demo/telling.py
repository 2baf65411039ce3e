"""What both stories of the demo share: where files go, what is said and typed, who judges."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from holdfast.cli.demo.children import Children
from holdfast.cli.demo.orders import Totals
from holdfast.cli.failures import ExitCode
from holdfast.cli.tables import table
from holdfast.cli.terminal import out, prose
from holdfast.errors import DestinationExists


class Teller:
    """Speaks, types commands and judges."""

    def __init__(self, directory: Path, children: Children) -> None:
        self.directory = directory
        self.children = children
        self._console: Console = out()

    def say(self, text: str) -> None:
        """A paragraph of the story."""
        self._console.print()
        prose(self._console, text, "bold")
        sys.stdout.flush()

    def show(self, *command: str) -> None:
        """Print what a user would type."""
        shown = " ".join(f'"{word}"' if " " in word else word for word in command)
        prose(self._console, f"$ holdfast {shown}", "cyan")
        sys.stdout.flush()

    def type(self, *command: str) -> None:
        """Run what a user would type, with what a user would see."""
        self.show(*command)
        self.children.start([sys.executable, "-m", "holdfast.cli", *command]).finish()

    def judge(self, right: Totals, found: Mapping[str, Totals]) -> ExitCode:
        """Compare results with the recount of the input."""
        rows = table("", "customers", "orders", "amount", "wrong rows")
        for column in rows.columns[1:]:
            column.justify = "right"
        for name, totals in found.items():
            rows.add_row(name, *_summary(totals), str(len(wrong_rows(totals, right))))
        self._console.print(rows)
        self._console.print()
        if any(wrong_rows(totals, right) for totals in found.values()):
            prose(self._console, "The results differ. That must not happen.", "bold red")
            return ExitCode.PROBLEMS_FOUND
        prose(
            self._console, "Equal, row by row: nothing lost, nothing counted twice.", "bold green"
        )
        return ExitCode.FINE


@contextmanager
def telling(keep: Path | None) -> Iterator[Teller]:
    """Where the story takes place; nothing is left of it unless ``keep`` is given."""
    from holdfast.spark.session import ensure_environment

    ensure_environment()
    with (
        _directory(keep) as directory,
        tempfile.TemporaryDirectory(prefix="holdfast-demo-scratch-") as scratch,
        Children(directory, Path(scratch)) as children,
    ):
        yield Teller(directory, children)


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as made:
            yield Path(made).resolve()
        return
    try:
        keep.mkdir(parents=True)
    except FileExistsError as error:
        raise DestinationExists(
            "the directory exists already", hint="Choose a new one.", path=str(keep)
        ) from error
    yield keep.resolve()
    prose(out(), f"All files are in {keep.resolve()}")


def wrong_rows(found: Totals, right: Totals) -> list[str]:
    """Customers whose totals are wrong, missing or made up."""
    return sorted(c for c in found.keys() | right.keys() if found.get(c) != right.get(c))


def _summary(totals: Totals) -> tuple[str, str, str]:
    orders = sum(total.orders for total in totals.values())
    amount = sum(total.amount for total in totals.values())
    return str(len(totals)), f"{orders:,}", f"{amount:,}"
