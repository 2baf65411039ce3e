"""Hurt a job by chance, as often as wanted, and see that it counts every row once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.services.postgres_server import PostgresServer
from tests.services.spark_cluster import spark_cluster
from tests.soak.clock import FakeClock
from tests.soak.faults import IN_ONE_PROCESS, ON_A_CLUSTER, Fault, Hurt
from tests.soak.world import world


def soak(
    root: Path,
    postgres: PostgresServer,
    seed: int,
    faults: int,
    on_cluster: int,
    say: Callable[[str], None] = print,
    only: str | None = None,
) -> None:
    """So many faults with Spark in one process, and so many more on a cluster."""
    dice = Random(seed)
    with world(root, postgres, FakeClock(root)) as here:
        here.progress()
        hurt(here, dice, draw(dice, named(only, IN_ONE_PROCESS), faults), say)
        (root / "cluster").mkdir()
        with spark_cluster(root / "cluster", "one", "two") as cluster:
            here.stop()
            here.cluster = cluster
            here.start()
            here.progress()
            hurt(here, dice, draw(dice, named(only, ON_A_CLUSTER), on_cluster), say)
            here.finish()
    say(f"every row counted once after {faults + on_cluster} faults, seed {seed}")


def named(only: str | None, possible: Sequence[Fault[Hurt]]) -> list[Fault[Hurt]]:
    """All of them, or one."""
    return [fault for fault in possible if only in (None, fault.name)]


def draw(dice: Random, possible: Sequence[Fault[Hurt]], number: int) -> list[Fault[Hurt]]:
    """By weight, but the likeliest of them at least once."""
    chosen = sorted(possible, key=lambda fault: -fault.weight)[: number // 2]
    weights = [fault.weight for fault in possible]
    chosen += dice.choices(possible, weights, k=number - len(chosen))
    dice.shuffle(chosen)
    return chosen


def hurt(
    here: Hurt, dice: Random, faults: Sequence[Fault[Hurt]], say: Callable[[str], None]
) -> None:
    """One after the other; after each the job must go on."""
    for number, fault in enumerate(faults, 1):
        say(f"{number:4} {fault.name}")
        began = time.monotonic()
        say(f"     {fault.happen(here, dice)}")  # before it is known whether the job survives
        here.progress()
        say(f"     it went on after {time.monotonic() - began:.1f} s")
