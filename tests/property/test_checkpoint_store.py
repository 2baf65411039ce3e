"""Random histories on a real directory: completed checkpoints keep their bytes, and what failed or
was left by a crash leaves nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checkpoints.metadata import METADATA
from holdfast.checkpoints.store import CheckpointStore, GivenUp, read_completed
from holdfast.errors import DamagedFile, DestinationExists, StorageError
from holdfast.storage.local import LocalStorage
from holdfast.storage.local_tree import LocalTree
from tests.property.store_model import a_job, metadata_of, tree_of

NAMES = st.sampled_from(["1/a/x", "1/a/y", "1/b/x", "2/a/x", "top"])
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


def test_a_checkpoint_that_cannot_be_read_is_named_and_loses_nothing() -> None:
    with a_job() as job:
        for kind in ("begin", "share", "own", "complete"):
            job.step(kind, 0, "1/a/x")
        (job.root / f"chk-1/{METADATA}").write_bytes(b"{")
        found = tree_of(job.root)
        store = CheckpointStore(str(job.root))
        assert store.completed == {}
        assert "checkpoint 1 cannot be read" in store.damaged[1].message
        assert tree_of(job.root) == found
        # Whoever shares files with it and goes leaves them there.
        other = store.begin(2)
        other.share("1/a/x")
        other.abort()
        assert tree_of(job.root) == found
        with pytest.raises(DamagedFile, match="checkpoint 1 cannot be read"):
            read_completed(str(job.root))


def test_when_a_checkpoint_that_cannot_be_read_goes_all_that_nobody_uses_goes_too() -> None:
    with a_job() as job:
        for kind in ("begin", "share", "own", "complete"):
            job.step(kind, 0, "1/a/x")
        for kind in ("begin", "share", "complete"):
            job.step(kind, 0, "1/b/x")
        (job.root / f"chk-1/{METADATA}").write_bytes(b"{")
        store = CheckpointStore(str(job.root))
        going = store.begin(3)
        going.share("top")
        going.write_shared("top", b"shared top")
        store.drop(1)
        left = {path for path, data in tree_of(job.root).items() if data is not None}
        assert left == {f"chk-2/{METADATA}", "shared/1/b/x", "shared/top"}
        assert store.damaged == {}


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
            begun.writer.complete(metadata_of(1, tuple(begun.files.values())))
        begun.writer.abort()
        assert tree_of(job.root) == found
        del job.begun[1]
        job.crash()


def test_an_abort_does_not_touch_a_checkpoint_of_the_same_number_by_another_process() -> None:
    with a_job() as job:
        job.step("begin", 0, "")
        job.write_own(job.begun[1], "1/a/x")
        theirs = CheckpointStore(str(job.root)).begin(1)
        theirs.complete(metadata_of(1, ()))
        with pytest.raises(DestinationExists):
            job.begun[1].writer.complete(metadata_of(1, ()))
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


@pytest.mark.parametrize("left", [None, b"shared", b"SHARED 1/a/x and more"])
def test_a_shared_file_that_was_lost_or_cut_short_is_written_anew(left: bytes | None) -> None:
    with a_job() as job:
        for kind in ("begin", "share", "complete"):
            job.step(kind, 0, "1/a/x")
        victim = job.root / "shared/1/a/x"
        data = victim.read_bytes()
        victim.unlink()
        if left is not None:
            victim.write_bytes(left)
        writer = job.store.begin(2)
        assert not writer.share("1/a/x", len(data))
        writer.write_shared("1/a/x", data)
        assert victim.read_bytes() == data
        assert job.store.begin(3).share("1/a/x", len(data))
