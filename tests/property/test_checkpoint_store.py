"""Random histories on a real directory: completed checkpoints keep their bytes, and what failed or
was left by a crash leaves nothing."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checkpoints.metadata import METADATA, CheckpointMetadata, RegionSnapshot, StoredFile
from holdfast.checkpoints.store import (
    CheckpointStore,
    CheckpointWriter,
    GivenUp,
    read_checkpoint,
)
from holdfast.errors import DamagedFile, DestinationExists, StorageError
from holdfast.querylog.checksums import crc32c
from holdfast.storage.local import LocalStorage
from holdfast.storage.local_tree import LocalTree
from holdfast.storage.names import temporary_name

NAMES = st.sampled_from(["1/a/x", "1/a/y", "1/b/x", "2/a/x", "top"])


@dataclass(slots=True)
class Begun:
    """A checkpoint in flight, and what its metadata will say."""

    writer: CheckpointWriter
    files: dict[str, StoredFile] = field(default_factory=dict)


@dataclass(slots=True)
class History:
    """One job's directory over several lives of its process."""

    root: Path
    store: CheckpointStore = field(init=False)
    begun: dict[int, Begun] = field(default_factory=dict)
    completed: dict[int, dict[str, StoredFile]] = field(default_factory=dict)
    next_id: int = 1

    def __post_init__(self) -> None:
        self.store = CheckpointStore(str(self.root))

    def step(self, kind: str, which: int, name: str) -> None:
        running, finished = sorted(self.begun), sorted(self.completed)
        match kind:
            case "begin":
                self.begun[self.next_id] = Begun(self.store.begin(self.next_id))
                self.next_id += 1
            case "own" if running:
                self.write_own(self.begun[running[which % len(running)]], name)
            case "share" if running:
                self.share(self.begun[running[which % len(running)]], name)
            case "complete" if running:
                self.complete(running[which % len(running)])
            case "abort" if running:
                self.begun.pop(running[which % len(running)]).writer.abort()
            case "drop" if finished:
                dropped = finished[which % len(finished)]
                del self.completed[dropped]
                self.store.drop(dropped)
            case "crash":
                self.crash()
            case "die dropping" if finished:
                dropped = finished[which % len(finished)]
                del self.completed[dropped]
                (self.root / f"chk-{dropped}" / METADATA).unlink()
                self.crash()
            case "die publishing":
                place = (self.root / "shared" / name).with_name(temporary_name())
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(b"half")
                self.crash()

    def write_own(self, begun: Begun, name: str) -> None:
        data = f"{begun.writer.checkpoint} {name}".encode()
        if name not in begun.files:
            begun.files[name] = _stored(name, data, begun.writer.write_own(name, data))

    def share(self, begun: Begun, name: str) -> None:
        data = f"shared {name}".encode()
        place = f"shared/{name}"
        there = begun.writer.share(name)
        assert there == (self.root / place).is_file()
        if not there:
            assert begun.writer.write_shared(name, data) == place
        begun.files[place] = _stored(name, data, place)

    def complete(self, number: int) -> None:
        begun = self.begun.pop(number)
        begun.writer.complete(_metadata(number, tuple(begun.files.values())))
        self.completed[number] = begun.files

    def crash(self) -> None:
        """The process dies with whatever it was writing; the kernel drops its locks."""
        for begun in self.begun.values():
            _die(begun.writer)
        self.begun.clear()
        self.store = CheckpointStore(str(self.root))
        assert set(tree_of(self.root)) == self.expected(), "remains of the crash"

    def expected(self) -> set[str]:
        """Every path that completed checkpoints need, directories too."""
        places = [f"chk-{n}/{METADATA}" for n in self.completed]
        places += [f.place or "" for files in self.completed.values() for f in files.values()]
        return {
            str(path)
            for place in places
            for path in (Path(place), *Path(place).parents)
            if str(path) not in (".", "shared")
        }

    def check(self) -> None:
        assert list(self.store.completed) == sorted(self.completed)
        for number, files in self.completed.items():
            metadata, storage = read_checkpoint(str(self.root / f"chk-{number}"))
            assert {f.place: f for f in metadata.files} == {f.place: f for f in files.values()}
            for file in files.values():
                data = storage.read(file.place or "")
                assert (len(data), f"{crc32c(data):08x}") == (file.size, file.crc32c)


def _stored(path: str, data: bytes, place: str) -> StoredFile:
    return StoredFile(path, len(data), f"{crc32c(data):08x}", place=place)


def _metadata(number: int, files: tuple[StoredFile, ...]) -> CheckpointMetadata:
    region = RegionSnapshot("a", 0, "append", (), {}, files=files)
    return CheckpointMetadata(
        job_id="0" * 32,
        job_name="job",
        id=number,
        kind="checkpoint",
        mode="exactly-once",
        unaligned=False,
        full=False,
        triggered=1.0,
        completed=2.0,
        attempt=1,
        holdfast="0",
        spark="4",
        regions=(region,),
    )


def _die(writer: CheckpointWriter) -> None:
    if isinstance(writer._tree, LocalTree):
        os.close(writer._tree._lock)


def tree_of(root: Path) -> dict[str, bytes | None]:
    """Every file with its bytes and every directory, but ``shared`` itself."""
    found = {
        str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in root.rglob("*")
    }
    return {path: data for path, data in found.items() if path != "shared"}


@contextmanager
def a_job() -> Iterator[History]:
    with tempfile.TemporaryDirectory() as place:
        history = History(Path(place) / "job")
        try:
            yield history
        finally:
            for begun in history.begun.values():
                begun.writer.abort()


WORK = ["begin", "own", "share"] * 3 + ["complete", "complete", "abort", "drop"]
STEP = st.tuples(
    st.sampled_from([*WORK, "crash", "die dropping", "die publishing"]), st.integers(0, 3), NAMES
)
# Lists of a length that is drawn first are longer than Hypothesis would make them.
STEPS = st.integers(0, 30).flatmap(lambda n: st.lists(STEP, min_size=n, max_size=n))
Steps = list[tuple[str, int, str]]


@settings(max_examples=50)
@given(STEPS)
def test_completed_checkpoints_keep_every_byte_whatever_happens_around_them(steps: Steps) -> None:
    with a_job() as job:
        for step in steps:
            job.step(*step)
            job.check()
        job.crash()
        job.check()


@settings(max_examples=30)
@given(STEPS, st.lists(st.tuples(st.sampled_from(["own", "share"]), NAMES)))
def test_an_aborted_checkpoint_leaves_the_directory_as_it_was(
    before: Steps, written: list[tuple[str, str]]
) -> None:
    with a_job() as job:
        for step in before:
            job.step(*step)
        job.step("begin", 0, "")
        found = tree_of(job.root)
        newest = job.begun[max(job.begun)]
        for kind, name in written:
            (job.write_own if kind == "own" else job.share)(newest, name)
        newest.writer.give_up()
        newest.writer.abort()
        assert tree_of(job.root) == found
        del job.begun[newest.writer.checkpoint]
        job.check()


@settings(max_examples=20)
@given(STEPS)
def test_when_all_checkpoints_are_dropped_nothing_is_left(steps: Steps) -> None:
    with a_job() as job:
        for step in steps:
            job.step(*step)
        while job.begun:
            job.step("abort", 0, "")
        while job.completed:
            job.step("drop", 0, "")
        assert not tree_of(job.root)


class SlowToDelete(LocalStorage):
    """While it deletes a file, somebody else does something."""

    def __init__(self, root: str, meanwhile: Callable[[], None]) -> None:
        super().__init__(root)
        self.others = threading.Thread(target=meanwhile)

    def delete(self, path: str) -> None:
        if path.startswith("shared/"):
            self.others.start()
            self.others.join(0.3)  # they may have to wait for us
        super().delete(path)


def test_a_file_that_is_wanted_again_while_it_is_deleted_is_there_in_the_end() -> None:
    with a_job() as job:
        job.step("begin", 0, "")
        job.step("share", 0, "1/a/x")
        job.step("complete", 0, "")
        job.step("begin", 0, "")

        def share_it_again() -> None:
            begun = job.begun[2]
            if not begun.writer.share("1/a/x"):
                begun.writer.write_shared("1/a/x", b"shared 1/a/x")

        slow = SlowToDelete(str(job.root), share_it_again)
        job.store._storage = slow
        job.step("drop", 0, "")
        slow.others.join()
        assert (job.root / "shared/1/a/x").read_bytes() == b"shared 1/a/x"
        job.share(job.begun[2], "1/a/x")
        job.step("complete", 0, "")
        job.crash()
        job.check()


def test_a_checkpoint_that_cannot_be_read_stops_everything_and_loses_nothing() -> None:
    with a_job() as job:
        for kind in ("begin", "share", "own", "complete"):
            job.step(kind, 0, "1/a/x")
        (job.root / f"chk-1/{METADATA}").write_bytes(b"{")
        found = tree_of(job.root)
        with pytest.raises(DamagedFile, match="checkpoint 1 cannot be read"):
            CheckpointStore(str(job.root))
        assert tree_of(job.root) == found


class DiesAfterTheRename(LocalTree):
    """The directory has appeared, but whether it would survive a power cut is not known."""

    def publish(self) -> None:
        super().publish()
        raise StorageError("cannot create: Input/output error")


def test_a_checkpoint_that_was_stored_with_an_error_is_gone_when_it_is_aborted() -> None:
    with a_job() as job:
        job.step("begin", 0, "")
        found = tree_of(job.root)
        begun = job.begun[1]
        begun.writer._tree = DiesAfterTheRename(job.root / "chk-1", METADATA)
        job.share(begun, "1/a/x")
        with pytest.raises(StorageError):
            begun.writer.complete(_metadata(1, tuple(begun.files.values())))
        begun.writer.abort()
        assert tree_of(job.root) == found
        del job.begun[1]
        job.crash()


def test_an_abort_does_not_touch_a_checkpoint_of_the_same_number_by_another_process() -> None:
    with a_job() as job:
        job.step("begin", 0, "")
        job.write_own(job.begun[1], "1/a/x")
        theirs = CheckpointStore(str(job.root)).begin(1)
        theirs.complete(_metadata(1, ()))
        with pytest.raises(DestinationExists):
            job.begun[1].writer.complete(_metadata(1, ()))
        job.step("abort", 0, "")
        assert list(CheckpointStore(str(job.root)).completed) == [1]


def test_a_checkpoint_that_was_given_up_takes_no_further_file() -> None:
    with a_job() as job:
        job.step("begin", 0, "")
        writer = job.begun[1].writer
        writer.give_up()
        for write in (writer.write_own, writer.write_shared):
            with pytest.raises(GivenUp):
                write("x", b"late")
        with pytest.raises(GivenUp):
            writer.share("x")
        job.step("abort", 0, "")
        assert not tree_of(job.root)
