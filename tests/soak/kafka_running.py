"""Hurt a job from Kafka to Kafka until it has sent so many epochs, and recount its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.services.kafka_broker import KafkaBroker
from tests.soak import kafka_faults
from tests.soak.faults import Fault
from tests.soak.kafka_faults import FAULTS
from tests.soak.kafka_world import KafkaWorld, kafka_world
from tests.soak.running import named

_CALM = 12
"""The most epochs between two faults."""


def soak_kafka(
    root: Path,
    broker: KafkaBroker,
    seed: int,
    faults: int,
    epochs: int = 0,
    say: Callable[[str], None] = print,
    only: str | None = None,
) -> None:
    """At least so many faults and so many epochs."""
    dice = Random(seed)
    began = time.monotonic()
    with kafka_world(root, broker, seed) as here:
        here.progress()
        happened = 0
        for happened, fault in enumerate(drawn(dice, only), 1):
            happen(here, dice, fault, happened, say)
            sent = here.judge.count_epochs()
            if happened >= faults and sent >= epochs:
                break
            if epochs:
                here.epochs(dice.randint(0, _CALM))
        here.finish()
        judge = here.judge
    say(
        f"{judge.rows} rows once and in order, {len(judge.epochs - {0})} epochs, {happened} faults,"
        f" {judge.aborted} rows of aborted transactions behind them, {here.input.aborted} aborted"
        f" before them; seed {seed}, {time.monotonic() - began:.0f} s"
    )


def drawn(dice: Random, only: str | None) -> Iterator[Fault[KafkaWorld]]:
    """Each once, in any order, those that only Kafka knows first; from then on by weight."""
    possible = named(only, FAULTS)
    for ours in (True, False):
        some = [f for f in possible if (f.happen.__module__ == kafka_faults.__name__) is ours]
        yield from dice.sample(some, len(some))
    while True:
        yield from dice.choices(possible, [fault.weight for fault in possible])


def happen(
    here: KafkaWorld,
    dice: Random,
    fault: Fault[KafkaWorld],
    number: int,
    say: Callable[[str], None],
) -> None:
    """Something, after which the job must go on."""
    say(f"{number:4} {fault.name}")
    began = time.monotonic()
    did = fault.happen(here, dice)
    here.progress()
    epochs = here.judge.count_epochs()
    say(f"     {did} ({time.monotonic() - began:.1f} s; {epochs} epochs, {here.judge.rows} rows)")
