"""A checkpoint that is stored is complete, whatever fails behind it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from holdfast.checkpoints.metadata import RegionSnapshot, StoredFile, Transaction
from holdfast.checkpoints.restoring import verify
from holdfast.checkpoints.store import CheckpointStore, read_checkpoint
from holdfast.errors import StorageError
from holdfast.protocol.pending import PendingCheckpoints
from holdfast.protocol.statistics import CheckpointFigures, RegionFigures, Status
from holdfast.protocol.triggering import Cause, Request
from holdfast.querylog.checksums import crc32c
from holdfast.runtime.attempts import base_of
from holdfast.runtime.completion import Completion, Hooks, Identity
from holdfast.runtime.epochs import SinkEpochs
from holdfast.runtime.fencing import raise_epoch
from holdfast.runtime.history import History
from holdfast.runtime.promises import Promises
from holdfast.runtime.snapshots import Answer
from holdfast.runtime.work import WorkDirectory
from holdfast.settings import resolve
from holdfast.storage import FileInfo
from holdfast.storage.local import LocalStorage


@dataclass
class Promising:
    """A sink with a transaction for every checkpoint."""

    promised: list[int] = field(default_factory=list)

    def pending(self, checkpoint: int) -> list[Transaction]:
        return [Transaction("out", checkpoint, 0, 1, {"checkpoint": checkpoint})]

    def promise(self, checkpoint: int) -> None:
        self.promised.append(checkpoint)


class RefusesOnce(LocalStorage):
    """A disk of the working directory that is full just after a checkpoint was stored."""

    refuses = True

    def publish(self, path: str, data: bytes) -> None:
        if path.endswith(".stored") and self.refuses:
            self.refuses = False
            raise StorageError("cannot write: No space left on device", path=self.locate(path))
        super().publish(path, data)


class TakesItsTime(LocalStorage):
    """Deletes when it is told to, and knows how often it was asked for a list."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.go = threading.Event()
        self.lists = 0

    def delete(self, path: str) -> None:
        assert self.go.wait(60)
        super().delete(path)

    def list(self, path: str = "") -> list[FileInfo]:
        self.lists += 1
        return super().list(path)


class Ground:
    """What completes checkpoints, on real files."""

    def __init__(self, place: Path) -> None:
        self.work = WorkDirectory(str(place / "work"), "job")
        self.attempt = self.work.begin(None)
        self.kept = place / "kept"
        self.store = CheckpointStore(str(self.kept))
        self.history = History(str(place / "history"))
        self.sink = Promising()
        chosen = {"execution.checkpointing.num-retained": 1}
        settings = resolve(arguments={}, environ={}, file=None, code=chosen).checkpointing
        self.completion = Completion(
            Identity(self.work.job_id, "job", self.attempt.number, "0", "4"),
            settings,
            self.store,
            [cast(SinkEpochs, self.sink)],
            self.history,
            Hooks(),
            Promises(RefusesOnce(self.attempt.storage.uri)),
            raise_epoch(self.work.storage),
        )

    def complete(self, number: int) -> None:
        """Checkpoint ``number`` of one region, with a shared file that only it uses."""
        writer = self.store.begin(number)
        data = f"state {number}".encode()
        assert not writer.share(f"1/{number}")
        place = writer.write_shared(f"1/{number}", data)
        file = StoredFile("state", len(data), f"{crc32c(data):08x}", True, place)
        region = RegionSnapshot("a", number, "append", (), {}, files=(file,))
        figures = RegionFigures("a", number, 2.0, 0.0, 0.0, 0.0, 0.0, 1, 1, 0, False)
        pending: PendingCheckpoints[Answer] = PendingCheckpoints()
        pending.begin(number, Request(Cause.USER, 1.0, "test"), {"a"}, 1.0)
        pending.acknowledge(number, "a", Answer(region, (), figures))
        begun = pending.get(number)
        assert begun is not None
        self.history.begin(CheckpointFigures(number, 1.0, 1, "USER", False, False))
        self.completion.store_it(begun, writer, {})


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def test_a_checkpoint_whose_promise_cannot_be_settled_is_complete_and_keeps_its_files(
    ground: Ground,
) -> None:
    ground.complete(1)
    assert ground.history.of(1).status is Status.COMPLETED
    assert ground.sink.promised == [1]
    verify(*read_checkpoint(str(ground.kept / "chk-1")))

    # A restart finds it, and owns its transaction.
    again = CheckpointStore(str(ground.kept))
    base = base_of(ground.attempt, again.completed)
    assert base is not None
    assert (base.id, [t.checkpoint for t in base.transactions]) == (1, [1])
    verify(*read_checkpoint(str(ground.kept / "chk-1")))

    # The next one settles what was left.
    ground.complete(2)
    promised = {info.path for info in ground.attempt.storage.list("promised")}
    assert promised == {"promised/2", "promised/2.stored"}


def test_old_checkpoints_are_deleted_beside_the_job_and_before_it_ends(ground: Ground) -> None:
    ground.complete(1)
    ground.complete(2)
    slow = TakesItsTime(str(ground.kept))
    ground.store._storage = slow
    ground.completion.subsume()
    assert list(ground.store.completed) == [2]
    assert ground.history.of(1).discarded
    # It is not deleted yet, and the next checkpoint does not wait for that.
    assert (ground.kept / "chk-1/_metadata").exists()
    ground.complete(3)
    ground.completion.subsume()
    slow.go.set()
    ground.completion.close()
    left = {info.path for info in LocalStorage(ground.kept).list()}
    assert left == {"chk-3/_metadata", "shared/1/3"}


def test_what_cannot_be_deleted_is_no_reason_to_stop(ground: Ground) -> None:
    done = []

    def refuse() -> None:
        raise StorageError("cannot delete: Input/output error")

    ground.completion.delete_later("an old attempt", refuse)
    ground.completion.delete_later("another", lambda: done.append("deleted"))
    ground.completion.close()
    assert done == ["deleted"]


def test_shared_files_are_looked_at_by_those_who_copy_and_once_per_checkpoint(
    ground: Ground,
) -> None:
    ground.complete(1)
    storage = TakesItsTime(str(ground.kept))
    ground.store._storage = storage
    writer = ground.store.begin(2)
    assert storage.lists == 0
    assert writer.share("1/1")
    assert not writer.share("1/2")
    assert storage.lists == 1
