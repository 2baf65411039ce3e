"""The demo, step by step."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from holdfast.cli.demo.children import Child, Children
from holdfast.cli.demo.orders import FILES, Totals, recount, results_of, write_orders
from holdfast.cli.failures import ExitCode
from holdfast.cli.tables import table
from holdfast.cli.terminal import out, prose, spinner
from holdfast.errors import DestinationExists, EnvironmentProblem

_KILL_FROM = 5
_GO_BACK_TO = 2
_GLANCE_SECONDS = 0.005


def tell(keep: Path | None) -> ExitCode:
    """Run the whole demo; the exit code says whether the result is right."""
    from holdfast.spark.session import ensure_environment

    ensure_environment()
    with (
        _directory(keep) as directory,
        tempfile.TemporaryDirectory(prefix="holdfast-demo-scratch-") as scratch,
        Children(directory, Path(scratch)) as children,
    ):
        return _Story(directory, children).run()


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


class _Story:
    def __init__(self, directory: Path, children: Children) -> None:
        self._directory = directory
        self._children = children
        self._console: Console = out()

    def run(self) -> ExitCode:
        self._say(
            f"1. A streaming query counts orders per customer: {FILES} files, one per batch, "
            "state in RocksDB. A second one like it runs beside it and is left alone."
        )
        write_orders(self._directory / "input")
        undisturbed = self._start_query("undisturbed", "undisturbed-results")
        self._kill_in_flight(self._start_query("orders", "results"))
        self._say("3. What did it leave? None of this needs Spark or changes anything.")
        self._type("log", "inspect", "orders")
        self._say("Is every byte that a restart needs there and sound?")
        self._type("log", "verify", "orders")
        self._say(
            f"4. Say the input was bad from batch {_GO_BACK_TO + 1} on. Go back: a copy that "
            "knows nothing later. The original stays as it is."
        )
        copied = f"orders-at-{_GO_BACK_TO}"
        self._type("log", "copy", "orders", copied, "--batch", str(_GO_BACK_TO))
        self._say("What did the query know at that time? Its state, as rows:")
        self._type("log", "state", copied, "--where", "value.count > 165")
        self._say("5. The same query, unchanged, resumes from the copy and writes its results.")
        resumed = self._start_query(copied, "results")
        with spinner("Waiting for both queries"):
            resumed.finish()
            undisturbed.finish()
        return self._judge()

    def _say(self, text: str) -> None:
        self._console.print()
        prose(self._console, text, "bold")
        sys.stdout.flush()

    def _type(self, *command: str) -> None:
        """Run what a user would type, with what a user would see."""
        shown = " ".join(f'"{word}"' if " " in word else word for word in command)
        prose(self._console, f"$ holdfast {shown}", "cyan")
        sys.stdout.flush()
        self._children.start([sys.executable, "-m", "holdfast.cli", *command]).finish()

    def _start_query(self, query_log: str, results: str) -> Child:
        module = "holdfast.cli.demo.query"
        command = [sys.executable, "-m", module, "input", query_log, results]
        return self._children.start(command, self._directory / f"{query_log}.out")

    def _kill_in_flight(self, query: Child) -> None:
        with spinner(f"Waiting for batch {_KILL_FROM}"):
            batch = kill_in_flight(query, self._directory / "orders", _KILL_FROM)
        self._say(
            f"2. Batch {batch} is running: its offsets are planned, it is not committed. kill -9."
        )

    def _judge(self) -> ExitCode:
        right = recount(self._directory / "input")
        found = {
            "input recounted in plain Python": right,
            "undisturbed query": results_of(self._directory / "undisturbed-results"),
            "killed, taken back, resumed": results_of(self._directory / "results"),
        }
        self._say("6. Is the result right?")
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


def kill_in_flight(query: Child, query_log: Path, first: int) -> int:
    """``kill -9`` while batch ``first`` or a later one is planned and not committed.

    The batch could commit between the look and the blow. So freeze the query, look again, and let
    it go on if it was too late.
    """
    while True:
        batch = in_flight(query_log)
        if batch is not None and batch >= first:
            query.signal(signal.SIGSTOP)
            if in_flight(query_log) == batch:
                query.kill()
                return batch
            query.signal(signal.SIGCONT)
        if not query.running:
            query.finish()
            raise EnvironmentProblem("the query ended before it could be killed")
        time.sleep(_GLANCE_SECONDS)


def in_flight(query_log: Path) -> int | None:
    """The batch that is running, told by the files."""
    planned, committed = (
        {int(p.name) for p in (query_log / folder).glob("[0-9]*") if p.name.isdigit()}
        for folder in ("offsets", "commits")
    )
    return max(planned - committed, default=None)


def wrong_rows(found: Totals, right: Totals) -> list[str]:
    """Customers whose totals are wrong, missing or made up."""
    return sorted(c for c in found.keys() | right.keys() if found.get(c) != right.get(c))


def _summary(totals: Totals) -> tuple[str, str, str]:
    orders = sum(total.orders for total in totals.values())
    amount = sum(total.amount for total in totals.values())
    return str(len(totals)), f"{orders:,}", f"{amount:,}"
