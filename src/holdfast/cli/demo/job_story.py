"""``holdfast demo``: a job of two regions is killed behind a checkpoint, and goes on."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from holdfast.cli.demo import totals
from holdfast.cli.demo.children import Child
from holdfast.cli.demo.orders import FILES, Total, Totals, recount, write_orders
from holdfast.cli.demo.telling import Teller, telling
from holdfast.cli.failures import ExitCode
from holdfast.cli.terminal import spinner
from holdfast.errors import EnvironmentProblem

_KILL_AFTER = 2
_GLANCE_SECONDS = 0.02
_SCRIPT = "totals.py"


def tell(keep: Path | None) -> ExitCode:
    """Run the whole story; the exit code says whether the result is right."""
    with telling(keep) as teller:
        return _tell(teller)


def _tell(teller: Teller) -> ExitCode:
    write_orders(teller.directory / "input")
    shutil.copy(str(totals.__file__), teller.directory / _SCRIPT)
    teller.say(
        f"1. A job in two regions: `orders` reads {FILES} files, one per batch; `totals` adds up "
        "per customer. A checkpoint of both together is taken every second."
    )
    teller.show("run", _SCRIPT)
    first = _run(teller, "first")
    with spinner(f"Waiting for checkpoint {_KILL_AFTER}"):
        checkpoint = _wait_for_checkpoint(teller, first)
    first.kill()
    teller.say(f"2. {checkpoint.name} is complete. kill -9: job, Spark and all.")
    teller.say("3. What is in the checkpoint? One consistent cut through both regions.")
    teller.type("checkpoints", "show", str(checkpoint.relative_to(teller.directory)))
    teller.say(
        f"Rows that are visible now, all of them covered by a checkpoint: "
        f"{_visible(teller.directory / 'out')}."
    )
    teller.say("4. The same command again. The job goes on where it was and reads to the end.")
    teller.show("run", _SCRIPT)
    second = _run(teller, "second")
    with spinner("Waiting for the end of the input"):
        second.finish()
    teller.say("5. Is the result right?")
    right = recount(teller.directory / "input")
    found = {
        "input recounted in plain Python": right,
        "killed and gone on": _totals(teller.directory / "out"),
    }
    return teller.judge(right, found)


def _run(teller: Teller, name: str) -> Child:
    command = [sys.executable, "-m", "holdfast.cli", "run", _SCRIPT, "--quiet"]
    return teller.children.start(command, teller.directory / f"{name}.out")


def _wait_for_checkpoint(teller: Teller, job: Child) -> Path:
    """The directory of a checkpoint that covers some totals, but not all."""
    while job.running:
        for metadata in sorted((teller.directory / "checkpoints").glob("*/chk-*/_metadata")):
            cuts = {r["uid"]: r["cut"] for r in json.loads(metadata.read_text())["regions"]}
            if cuts["totals"] >= _KILL_AFTER:
                return metadata.parent
        time.sleep(_GLANCE_SECONDS)
    job.finish()
    raise EnvironmentProblem("the job ended before it could be killed")


def _rows(out: Path) -> list[dict[str, int]]:
    import pyarrow.parquet as pq

    files = sorted(out.glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def _visible(out: Path) -> int:
    return len(_rows(out))


def _totals(out: Path) -> Totals:
    """For each customer the newest row: totals only grow."""
    newest: Totals = {}
    for row in _rows(out):
        total = Total(row["orders"], row["amount"])
        known = newest.get(str(row["customer"]))
        if known is None or total.orders > known.orders:
            newest[str(row["customer"])] = total
    return newest
