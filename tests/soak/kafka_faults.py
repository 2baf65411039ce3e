"""What can happen to a job from Kafka to Kafka, besides what happens to any."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from tests.soak import faults
from tests.soak.faults import Fault, kill
from tests.soak.kafka_world import KafkaWorld

_MOST_TASKS = 4


def the_sender_dies(world: KafkaWorld, _: Random) -> str:
    """In the middle of an epoch: its transaction stays open until the next try.

    Looking for processes takes longer than sending an epoch, so it is done before.
    """
    victims = world.wait_for(world.python_workers)
    when = world.until_it_sends()
    for victim in victims:
        kill(victim)
    return f"{len(victims)} Python workers, {when}"


def everything_dies_while_it_sends(world: KafkaWorld, _: Random) -> str:
    world.runner()
    victims = world.processes()
    when = world.until_it_sends()
    for victim in victims:
        kill(victim)
    world.kill_everything()
    world.start()
    return f"as when the machine loses its power, {when}"


def the_broker_dies(world: KafkaWorld, dice: Random) -> str:
    seconds = dice.uniform(0.0, 4.0)
    with _without_broker(world):
        world.until_it_hurts(seconds)
    return f"it was away for up to {seconds:.1f} s"


def the_broker_dies_while_it_is_sent_rows(world: KafkaWorld, _: Random) -> str:
    world.runner()
    when = world.until_it_sends()
    with _without_broker(world):
        pass
    return f"it came back at once, {when}"


def the_broker_does_not_answer(world: KafkaWorld, dice: Random) -> str:
    seconds = dice.uniform(0.5, 12.0)
    if dice.random() < 0.5:
        world.until_it_sends()
    world.signal_broker(signal.SIGSTOP)
    try:
        world.until_it_hurts(seconds)
    finally:
        world.signal_broker(signal.SIGCONT)
    return f"for up to {seconds:.1f} s"


def the_runner_dies_and_comes_back_before_the_broker(world: KafkaWorld, dice: Random) -> str:
    first = world.runner().process.pid
    seconds = dice.uniform(0.0, 6.0)
    with _without_broker(world):
        kill(first)
        world.wait_for(lambda: world.starting(first))
        world.until_it_hurts(seconds)
    return f"runner {first}; the broker began to come back {seconds:.1f} s later"


def the_sink_gets_another_number_of_tasks(world: KafkaWorld, dice: Random) -> str:
    """By a death, or as an operator does it."""
    before = world.kafka_spec.parallelism
    after = dice.choice([n for n in range(1, _MOST_TASKS + 1) if n != before])
    runner = world.runner().process.pid
    world.give_tasks(after)
    if dice.random() < 0.5:
        world.until_it_sends()
        os.kill(runner, signal.SIGKILL)
    else:
        world.stop()
        world.start()
    return f"{before} became {after}"


@contextmanager
def _without_broker(world: KafkaWorld) -> Iterator[None]:
    world.broker.kill()
    try:
        yield
    finally:
        world.broker.start()


FAULTS: tuple[Fault[KafkaWorld], ...] = (
    Fault(the_sender_dies, 5),
    Fault(the_broker_does_not_answer, 4),
    Fault(the_broker_dies_while_it_is_sent_rows, 3),
    Fault(faults.the_runner_dies, 3),
    Fault(the_sink_gets_another_number_of_tasks, 3),
    Fault(faults.the_supervisor_dies, 2),
    Fault(the_broker_dies, 2),
    Fault(faults.the_jvm_dies, 2),
    Fault(everything_dies_while_it_sends, 2),
    Fault(faults.a_task_dies, 2),
    Fault(faults.the_runner_dies_again_while_it_starts, 1),
    Fault(the_runner_dies_and_comes_back_before_the_broker, 1),
    Fault(faults.the_jvm_hangs, 1),
    Fault(faults.everything_dies, 1),
)
"""Each of them once, and each kind of process, within the first faults of any run."""
