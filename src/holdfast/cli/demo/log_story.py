"""``holdfast demo log``: a plain Spark query is killed, looked into, taken back and resumed."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from holdfast.cli.demo.children import Child
from holdfast.cli.demo.orders import FILES, recount, results_of, write_orders
from holdfast.cli.demo.telling import Teller, telling
from holdfast.cli.failures import ExitCode
from holdfast.cli.terminal import spinner
from holdfast.errors import EnvironmentProblem

_KILL_FROM = 5
_GO_BACK_TO = 2
_GLANCE_SECONDS = 0.005


def tell(keep: Path | None) -> ExitCode:
    """Run the whole story; the exit code says whether the result is right."""
    with telling(keep) as teller:
        return _tell(teller)


def _tell(teller: Teller) -> ExitCode:
    teller.say(
        f"1. A streaming query counts orders per customer: {FILES} files, one per batch, "
        "state in RocksDB. A second one like it runs beside it and is left alone."
    )
    write_orders(teller.directory / "input")
    undisturbed = _start_query(teller, "undisturbed", "undisturbed-results")
    _kill(teller, _start_query(teller, "orders", "results"))
    teller.say("3. What did it leave? None of this needs Spark or changes anything.")
    teller.type("log", "inspect", "orders")
    teller.say("Is every byte that a restart needs there and sound?")
    teller.type("log", "verify", "orders")
    teller.say(
        f"4. Say the input was bad from batch {_GO_BACK_TO + 1} on. Go back: a copy that "
        "knows nothing later. The original stays as it is."
    )
    copied = f"orders-at-{_GO_BACK_TO}"
    teller.type("log", "copy", "orders", copied, "--batch", str(_GO_BACK_TO))
    teller.say("What did the query know at that time? Its state, as rows:")
    teller.type("log", "state", copied, "--where", "value.count > 165")
    teller.say("5. The same query, unchanged, resumes from the copy and writes its results.")
    resumed = _start_query(teller, copied, "results")
    with spinner("Waiting for both queries"):
        resumed.finish()
        undisturbed.finish()
    teller.say("6. Is the result right?")
    right = recount(teller.directory / "input")
    found = {
        "input recounted in plain Python": right,
        "undisturbed query": results_of(teller.directory / "undisturbed-results"),
        "killed, taken back, resumed": results_of(teller.directory / "results"),
    }
    return teller.judge(right, found)


def _start_query(teller: Teller, query_log: str, results: str) -> Child:
    module = "holdfast.cli.demo.query"
    command = [sys.executable, "-m", module, "input", query_log, results]
    return teller.children.start(command, teller.directory / f"{query_log}.out")


def _kill(teller: Teller, query: Child) -> None:
    with spinner(f"Waiting for batch {_KILL_FROM}"):
        batch = kill_in_flight(query, teller.directory / "orders", _KILL_FROM)
    teller.say(
        f"2. Batch {batch} is running: its offsets are planned, it is not committed. kill -9."
    )


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
