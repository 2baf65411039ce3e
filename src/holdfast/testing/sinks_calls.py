"""A sink's life without Spark: the runtime's calls in their order, which can end between any two.

Everything here may be pickled to other processes.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pickle import loads
from typing import Any, Protocol

import pyarrow as pa

from holdfast.sinks.interface import Handle
from holdfast.sinks.two_phase import Part, TwoPhaseCommitSink
from holdfast.testing.interruption import dies

JOB = "0f1e2d3c" * 4
SINK = "out"


def pickled(sink: object) -> bytes:
    """A sink as Spark sends it to executors."""
    from pyspark import cloudpickle

    return bytes(cloudpickle.dumps(sink))


def over_json(handle: Handle) -> dict[str, Any]:
    """A handle as it comes back from a task, and out of a checkpoint."""
    return dict(json.loads(json.dumps(dict(handle))))


class Calls(Protocol):
    """Something that consists of several calls of a sink."""

    def calls(self) -> Iterator[str]:
        """Make the next call, and name it."""


@dataclass(frozen=True, slots=True)
class Notes:
    """Stands for the metadata of a checkpoint: what is in it will be committed."""

    path: Path

    def keep(self, handles: list[dict[str, Any]]) -> None:
        """From here on the checkpoint is complete."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, json.dumps(handles).encode())
        os.close(descriptor)

    def read(self) -> list[dict[str, Any]]:
        """What a completed checkpoint owns; nothing if it was never completed."""
        text = self.path.read_text() if self.path.exists() else ""
        return list(json.loads(text)) if text else []


@dataclass(frozen=True, slots=True)
class Task:
    """One try of one part, and its rows."""

    part: Part
    batches: tuple[pa.RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class Life:
    """An epoch, from what an earlier one has left behind to its commit."""

    sink: bytes
    tasks: tuple[Task, ...]
    notes: Notes

    def calls(self) -> Iterator[str]:
        """Tasks one after the other, each with an object of its own; then the driver's."""
        abort_all(loads(self.sink))
        handles: list[dict[str, Any]] = []
        for task in self.tasks:
            yield from _write(loads(self.sink), task, handles)
        self.notes.keep(handles)
        yield "stored"
        sink: TwoPhaseCommitSink = loads(self.sink)
        for at, handle in enumerate(handles):
            sink.commit(handle)
            yield f"commit {at}"
        sink.close()


def _write(sink: TwoPhaseCommitSink, task: Task, handles: list[dict[str, Any]]) -> Iterator[str]:
    number = task.part.number
    handle = sink.begin(task.part)
    yield f"begin {number}"
    for at, rows in enumerate(task.batches):
        sink.invoke(handle, rows)
        yield f"invoke {number}.{at}"
    sink.pre_commit(handle)
    yield f"pre_commit {number}"
    sink.close()
    handles.append(over_json(handle))


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the runtime does after a restart: commit what a checkpoint owns, abort the rest."""

    sink: bytes
    notes: Notes

    def calls(self) -> Iterator[str]:
        """The driver's."""
        sink: TwoPhaseCommitSink = loads(self.sink)
        owned = self.notes.read()
        for handle in owned:
            sink.recover_and_commit(handle)
            yield "recover_and_commit"
        promised = {handle["checkpoint"] for handle in owned}
        for found in list(sink.pending(JOB, SINK)):
            if found["checkpoint"] not in promised:
                sink.abort(found)
                yield "abort"
        sink.close()


@dataclass(frozen=True, slots=True)
class Commit:
    """Commits what a checkpoint owns."""

    sink: bytes
    notes: Notes

    def calls(self) -> Iterator[str]:
        """The driver's."""
        sink: TwoPhaseCommitSink = loads(self.sink)
        for handle in self.notes.read():
            sink.commit(handle)
            yield "commit"
        sink.close()


def abort_all(sink: TwoPhaseCommitSink, but: Mapping[str, Any] | None = None) -> None:
    """What the runtime does before and after the tasks of an epoch: end what nobody needs."""
    for handle in list(sink.pending(JOB, SINK)):
        if over_json(handle) != but:
            sink.abort(handle)
    sink.close()


def finish(calls: Calls) -> None:
    """Make all calls."""
    for _ in calls.calls():
        pass


Crash = Callable[[Calls, int], bool]
"""End something after its n-th call; ``False`` if it finished before."""


def drop_after(calls: Calls, count: int) -> bool:
    """Forget the objects, which nobody closes."""
    return any(at == count for at, _ in enumerate(calls.calls(), 1))


def kill_after(calls: Calls, count: int) -> bool:
    """Do it in a process of its own, and kill that."""
    return dies(partial(_kill_itself_after, calls, count))


def _kill_itself_after(calls: Calls, count: int) -> None:
    for at, _ in enumerate(calls.calls(), 1):
        if at == count:
            os.kill(os.getpid(), signal.SIGKILL)


def getting_ready(life: Life) -> Callable[[], None]:
    """A life to be watched step by step; what is slow when used first is loaded before."""
    loads(life.sink)
    return partial(finish, life)
