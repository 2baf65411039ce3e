"""The input of the demo, and its right answer counted without Spark."""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILES = 10
_ORDERS_PER_FILE = 2_000
_CUSTOMERS = 40
_SEED = 7
_FIRST_ARRIVAL = 1_767_225_600  # 2026-01-01; the file source reads in order of modification times


@dataclass(frozen=True, slots=True)
class Total:
    """What one customer has ordered."""

    orders: int
    amount: int


Totals = dict[str, Total]


def write_orders(directory: Path) -> None:
    """One file per future batch."""
    directory.mkdir()
    dice = random.Random(_SEED)
    for number in range(FILES):
        path = directory / f"orders-{number:02}.json"
        path.write_text("".join(_lines(dice)))
        os.utime(path, (_FIRST_ARRIVAL + number, _FIRST_ARRIVAL + number))


def _lines(dice: random.Random) -> Iterator[str]:
    for _ in range(_ORDERS_PER_FILE):
        order = {"customer": f"C{dice.randrange(_CUSTOMERS)}", "amount": dice.randrange(1, 500)}
        yield json.dumps(order) + "\n"


def recount(directory: Path) -> Totals:
    """The judge: reads the same files and adds up."""
    found: dict[str, list[int]] = defaultdict(list)
    for path in directory.glob("*.json"):
        for line in path.read_text().splitlines():
            order = json.loads(line)
            found[order["customer"]].append(order["amount"])
    return {customer: Total(len(amounts), sum(amounts)) for customer, amounts in found.items()}


def results_of(directory: Path) -> Totals:
    """What a query has written: for each customer the row of the newest batch."""
    totals: Totals = {}
    for path in sorted(directory.glob("batch-*.json"), key=lambda p: int(p.stem.split("-")[1])):
        for row in json.loads(path.read_text()):
            totals[row["customer"]] = Total(row["orders"], row["amount"])
    return totals
