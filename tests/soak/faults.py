"""What can happen to a job. Each fault returns, in words, what it has done."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Generic, TypeVar

from holdfast.server.registry import Runner
from tests.soak.ground import Ground
from tests.soak.world import World

Hurt = TypeVar("Hurt", bound=Ground)

HOUR = 3600
WORKING = {
    "state": ["work/*/state/*.*"],
    "batches": ["work/*/offsets/*", "work/*/commits/*"],
    "segments": ["work/*/segments/*"],
    "channel log": ["work/*/channels/*/log/*"],
    "promises": ["work/*/promised/*"],
    "origin": ["work/*/restored", "work/*/replay/*"],
    "attempt": ["work/*/attempt-*/attempt"],
    "records": ["work/*/job", "work/*/ids/*", "work/*/epochs/*"],
    "history": ["history/*.json"],
}
"""Files of a job by what they are for.

Not those that Spark writes once and never again: while one of them is damaged no checkpoint can be
taken, and this job tolerates that for longer than anybody waits.
"""
KEPT = {
    "metadata": ["checkpoints/*/_metadata"],
    "own files": ["checkpoints/*/chk-*/[!_]*"],
    "shared files": ["checkpoints/*/shared/*"],
}
_NEWEST = 6
"""Of a kind, one of so many is damaged: the older ones are hardly needed."""


@dataclass(frozen=True, slots=True)
class Fault(Generic[Hurt]):
    """Something that may happen, as often as its weight says."""

    happen: Callable[[Hurt, Random], str]
    weight: int = 1
    """Those that cost a start of Spark are rarer."""

    @property
    def name(self) -> str:
        return self.happen.__name__


# Processes


def a_task_dies(world: Ground, dice: Random) -> str:
    victim = dice.choice(world.wait_for(world.python_workers))
    kill(victim)
    return f"Python worker {victim}"


def the_jvm_dies(world: Ground, _: Random) -> str:
    runner = world.runner()
    kill(jvm_of(runner))
    return f"JVM {jvm_of(runner)}"


def the_jvm_hangs(world: Ground, _: Random) -> str:
    jvm = jvm_of(world.runner())
    os.kill(jvm, signal.SIGSTOP)
    return f"JVM {jvm}"


def the_runner_dies(world: Ground, _: Random) -> str:
    runner = world.runner().process.pid
    kill(runner)
    return f"runner {runner}"


def the_runner_dies_again_while_it_starts(world: Ground, dice: Random) -> str:
    first = world.runner()
    kill(first.process.pid)
    supervisor = world.supervisor.pid
    second = world.wait_for(lambda: world.starting(first.process.pid))
    until = dice.uniform(0.2, 4.0)
    world.until_it_hurts(until)
    kill(second)
    return f"runner {first.process.pid} of supervisor {supervisor}, then {second} {until:.1f} s on"


def the_supervisor_dies(world: Ground, _: Random) -> str:
    world.runner()  # before that there is nothing that could stop in order
    supervisor = world.supervisor.pid
    world.supervisor.kill()
    world.supervisor.wait()
    world.wait_for(lambda: not world.processes())
    world.start()
    return f"supervisor {supervisor}; its runner stopped in order"


def everything_dies(world: Ground, _: Random) -> str:
    world.runner()
    world.kill_everything()
    world.start()
    return "as when the machine loses its power"


def an_operator_stops_and_starts_it(world: Ground, _: Random) -> str:
    world.runner()
    world.stop()
    world.start()
    return "SIGTERM"


# Files


def a_working_file_is_damaged(world: World, dice: Random) -> str:
    return _hurt(world, Damage.drawn(dice, WORKING, dies=0.4))


def a_file_of_a_checkpoint_is_damaged(world: World, dice: Random) -> str:
    said = _hurt(world, Damage.drawn(dice, KEPT, dies=0.3))
    # A checkpoint that was being written may build upon the file; the next one writes it anew.
    world.progress()
    return said


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done to which file, all of it drawn before any file is looked at.

    So a seed tells it, though not which files there are by then.
    """

    kinds: list[tuple[str, list[str]]]
    """The first of which there is a file."""
    index: int
    """Counted from the newest."""
    left: float | None
    """How much of it stays; ``None`` if it is deleted."""
    dies: bool
    """Whether the runner dies in the same moment; else it is noticed when it is needed."""

    @classmethod
    def drawn(cls, dice: Random, kinds: Mapping[str, list[str]], dies: float) -> Damage:
        return cls(
            dice.sample(sorted(kinds.items()), len(kinds)),
            dice.randrange(_NEWEST),
            dice.choice([None, 0.0, 0.5, 0.9]),
            dice.random() < dies,
        )


def _hurt(world: Ground, damage: Damage) -> str:
    if not damage.dies:
        return _do(world, damage)
    runner = world.runner().process.pid
    os.kill(runner, signal.SIGSTOP)  # it would replace the file or need it no more
    said = _do(world, damage)
    kill(runner)
    return f"{said}; runner {runner}"


def _do(world: Ground, damage: Damage) -> str:
    while True:
        kind, path = world.wait_for(lambda: _find(world, damage))
        with suppress(FileNotFoundError):  # it was needed no more
            return f"{kind}: {_cut(path, damage.left)}"


def _find(world: Ground, damage: Damage) -> tuple[str, Path] | None:
    for kind, patterns in damage.kinds:
        if files := world.files(*patterns)[:_NEWEST]:
            return kind, files[damage.index % len(files)]
    return None


def _cut(path: Path, left: float | None) -> str:
    if left is None:
        path.unlink()
        return f"deleted {_short(path)}"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(int(size * left))
    return f"truncated {_short(path)} to {int(size * left)} of {size} bytes"


def _short(path: Path) -> str:
    return "/".join(path.parts[-4:])


def state_and_the_newest_checkpoint_are_damaged(world: World, dice: Random) -> str:
    """The job goes back to an older checkpoint, and its sinks must not get rows again."""
    world.wait_for(lambda: len(world.completed()) >= 2)
    runner = world.runner().process.pid
    os.kill(runner, signal.SIGSTOP)  # or it would be complete and old by then
    newest = world.completed()[0].id
    (metadata,) = world.root.glob(f"checkpoints/*/chk-{newest}/_metadata")
    metadata.write_bytes(metadata.read_bytes()[:100])
    for path in world.files(*WORKING["state"]):
        path.unlink(missing_ok=True)
    kill(runner)
    return f"checkpoint {newest} and all state"


# Storage, servers, time


def no_checkpoint_can_be_written(world: World, _: Random) -> str:
    runner = world.runner()
    with _no_room_for(runner.process.pid):
        world.until_it_hurts(4)
    return "the runner's files could not grow"


def the_disk_is_full(world: World, _: Random) -> str:
    runner = world.runner()
    with _no_room_for(runner.process.pid), _no_room_for(jvm_of(runner)):
        world.until_it_hurts(4)
    return "no file of the runner and its JVM could grow"


@contextmanager
def _no_room_for(pid: int) -> Iterator[None]:
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def the_database_dies(world: World, dice: Random) -> str:
    world.postgres.kill()
    seconds = dice.uniform(0.0, 4.0)
    world.until_it_hurts(seconds)
    world.postgres.start()
    return f"it was away for up to {seconds:.1f} s"


def the_clock_jumps(world: World, dice: Random) -> str:
    seconds = dice.choice([-24, -2, -1, 1, 2, 24]) * HOUR
    world.clock.jump(seconds)
    return f"it is {seconds // HOUR:+d} hours from the true time"


# On a cluster


def an_executor_dies(world: World, dice: Random) -> str:
    assert world.cluster is not None
    victim = dice.choice(world.wait_for(world.cluster.executors))
    victim.kill()
    return f"executor {victim.id} on worker {victim.worker}"


def all_executors_die(world: World, _: Random) -> str:
    assert world.cluster is not None
    victims = world.wait_for(world.cluster.executors)
    for victim in victims:
        victim.kill()
    return f"{len(victims)} executors"


def a_worker_dies(world: World, dice: Random) -> str:
    assert world.cluster is not None
    name = dice.choice(world.cluster.workers)
    world.cluster.kill_worker(name)
    world.cluster.start_worker(f"{name}-again")
    return f"worker {name} with its executors; another one came"


ANYWHERE = (
    Fault(the_jvm_dies),
    Fault(the_jvm_hangs),
    Fault(the_runner_dies),
    Fault(the_runner_dies_again_while_it_starts),
    Fault(the_supervisor_dies),
    Fault(everything_dies),
    Fault(an_operator_stops_and_starts_it),
    Fault(state_and_the_newest_checkpoint_are_damaged),
    Fault(a_working_file_is_damaged, 9),
    Fault(a_file_of_a_checkpoint_is_damaged, 6),
    Fault(no_checkpoint_can_be_written, 6),
    Fault(the_disk_is_full, 6),
    Fault(the_database_dies, 6),
    Fault(the_clock_jumps, 5),
)
IN_ONE_PROCESS = (*ANYWHERE, Fault(a_task_dies, 9))
ON_A_CLUSTER = (
    *ANYWHERE,
    Fault(an_executor_dies, 12),
    Fault(all_executors_die, 6),
    Fault(a_worker_dies, 6),
)


def jvm_of(runner: Runner) -> int:
    assert runner.jvm is not None
    return runner.jvm.pid


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
