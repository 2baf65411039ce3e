# ruff: noqa: D102  the name of a test is its sentence
"""The rules of ``Tree``, as tests to run against your own implementation.

Used as ``holdfast.testing.storage`` is: subclass, say how trees are created and opened, give a
place where nothing is yet, and say what becomes of a tree whose process died.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from pathlib import Path

import pytest

from holdfast.errors import DestinationExists, FileMissing, StorageError, UsageError
from holdfast.storage import Storage, create_tree, open_storage
from holdfast.testing.interruption import kill_at_every_step, overtake_at_every_step, race
from holdfast.testing.storage_work import (
    SEAL,
    Create,
    Open,
    build_own,
    building_copy,
    building_own,
    contents,
    copy_all,
    exactly,
    own_files,
)

FILES = {"1.txt": b"one", "deep/er/2.txt": b"two" * 50_000, "empty": b""}


class Remains(Enum):
    """What the next tree for the same target does with what a dead process left."""

    REMOVED = "it removes them"
    HIDDEN = "it goes on beside them; nobody lists them"
    REFUSED = "it refuses and says what to delete"


class TreeContract:
    """Each test states one rule; the numbers are those in ``holdfast.storage.interface``."""

    open: Open = staticmethod(open_storage)
    create: Create = staticmethod(create_tree)
    remains = Remains.REMOVED
    appears_at_once = True
    """False where only the seal does (object stores)."""
    has_links = False
    racers = 4
    stride = 1
    """Processes die at every step; at every n-th where starting a process is dear."""

    @pytest.fixture
    def location(self) -> str:
        """A URI below which nothing is yet, another one for each test."""
        raise NotImplementedError

    @pytest.fixture
    def around(self, location: str) -> Storage:
        """What is below that location: sources and targets."""
        return self.open(location)

    @pytest.fixture
    def target(self, around: Storage) -> str:
        """Where the tree goes."""
        return around.locate("some/target")

    @pytest.fixture(params=["the same place", "a local disk"])
    def source(self, request: pytest.FixtureRequest, location: str, tmp_path: Path) -> Storage:
        """Files to copy."""
        here = request.param == "the same place"
        source = self.open(f"{location}/source") if here else open_storage(tmp_path / "source")
        for path, data in FILES.items():
            source.publish(path, data)
        return source

    def raw_names(self, location: str) -> list[str]:
        """What is in a directory, unfinished things too; empty if it is not there."""
        raise NotImplementedError

    def wipe(self, location: str) -> None:
        """Delete everything at a location: unfinished things and empty directories too."""
        raise NotImplementedError

    def test_a_published_tree_has_what_was_written_and_copied(
        self, target: str, source: Storage
    ) -> None:
        tree = self.create(target, SEAL)
        sizes = {path: tree.copy(source, path, f"copied/{path}") for path in FILES}
        tree.write("written/3.txt", b"three")
        tree.write(SEAL, b"{}")
        tree.publish()
        assert sizes == {path: len(data) for path, data in FILES.items()}
        assert contents(self.open(target)) == {
            **{f"copied/{path}": data for path, data in FILES.items()},
            "written/3.txt": b"three",
            SEAL: b"{}",
        }

    def test_the_seal_may_be_a_copy(self, target: str, source: Storage) -> None:
        tree = self.create(target, "1.txt")
        assert tree.copy(source, "1.txt", "1.txt") == 3
        if not self.appears_at_once:
            assert self.open(target).list() == []
        tree.publish()
        assert contents(self.open(target)) == {"1.txt": b"one"}

    def test_a_tree_without_its_seal_is_not_published(self, around: Storage, target: str) -> None:
        tree = self.create(target, SEAL)
        tree.write("file", b"x")
        with pytest.raises(UsageError, match=SEAL):
            tree.publish()
        assert around.list() == []

    def test_1_an_existing_target_is_refused_at_once(self, around: Storage, target: str) -> None:
        around.publish("some/target/file", b"x")
        with pytest.raises(DestinationExists) as refused:
            self.create(target, SEAL)
        assert refused.value.ids["path"] == target
        assert contents(around) == {"some/target/file": b"x"}

    def test_1_of_racing_trees_one_is_published_and_the_others_are_told(
        self, location: str
    ) -> None:
        rounds = race(partial(build_own, self.create, location), self.racers, rounds=4)
        for number, told in enumerate(rounds):
            assert sorted(told) == ["lost"] * (self.racers - 1) + ["won"]
            assert contents(self.open(f"{location}/{number}")) == own_files(told.index("won"))

    def test_1_a_builder_that_is_overtaken_at_any_step_wins_or_is_told(
        self, target: str, location: str
    ) -> None:
        slow = partial(building_own, self.create, self.open, target, 1)
        fast = building_own(self.create, self.open, target, 2)
        for step, there, here in overtake_at_every_step(slow, fast, self.stride):
            assert {there, here} == {"won", "lost"}, f"at step {step}"
            winner = 1 if there == "won" else 2
            assert contents(self.open(target)) == own_files(winner), f"at step {step}"
            assert self.raw_names(f"{location}/some") == ["target"], f"at step {step}"
            self.wipe(f"{location}/some")

    def test_2_nothing_is_there_before_publish(self, around: Storage, target: str) -> None:
        tree = self.create(target, SEAL)
        tree.write(SEAL, b"{}")
        tree.write("dir/file", b"x")
        seen = [file.path for file in around.list()]
        assert seen == ([] if self.appears_at_once else ["some/target/dir/file"])
        tree.discard()

    def test_2_a_builder_killed_at_any_step_leaves_the_whole_tree_or_none(
        self, target: str, location: str
    ) -> None:
        source = self.open(f"{location}/source")
        for path, data in FILES.items():
            source.publish(path, data)
        work = partial(building_copy, self.create, self.open, source.uri, target)
        build = work()
        for step in kill_at_every_step(work, self.stride):
            found = contents(self.open(target))
            if SEAL in found:
                assert found == {**FILES, SEAL: b"{}"}, f"at step {step}"
            elif self.appears_at_once:
                assert found == {}, f"at step {step}"
            self._build_again(build, target, sealed=SEAL in found)
            assert contents(self.open(target)) == {**FILES, SEAL: b"{}"}, f"after step {step}"
            if self.remains is Remains.REMOVED and SEAL not in found:
                assert self.raw_names(f"{location}/some") == ["target"], f"after step {step}"
            self.wipe(f"{location}/some")

    def _build_again(self, build: Callable[[], object], target: str, *, sealed: bool) -> None:
        if sealed:
            with pytest.raises(DestinationExists):
                build()
            return
        if self.remains is Remains.REFUSED and self.raw_names(target):
            with pytest.raises(DestinationExists, match="unfinished"):
                build()
            self.wipe(target)
        build()

    def test_4_discard_leaves_nothing(
        self, around: Storage, target: str, source: Storage, location: str
    ) -> None:
        before = exactly(around)
        tree = self.create(target, SEAL)
        tree.copy(source, "deep/er/2.txt", "a/b/c")
        tree.write(SEAL, b"{}")
        tree.discard()
        tree.discard()
        assert exactly(around) == before
        assert self.raw_names(f"{location}/some") == []
        copy_all(self.create, source, target)

    def test_4_discard_after_publish_does_nothing(self, target: str) -> None:
        tree = self.create(target, SEAL)
        tree.write(SEAL, b"{}")
        tree.publish()
        tree.discard()
        assert contents(self.open(target)) == {SEAL: b"{}"}

    def test_5_many_threads_may_build_one_tree(self, target: str, source: Storage) -> None:
        tree = self.create(target, SEAL)
        tree.write(SEAL, b"{}")
        with ThreadPoolExecutor(8) as threads:
            copied = threads.map(
                lambda number: tree.copy(source, "1.txt", f"{number % 5}/{number}"), range(40)
            )
            assert set(copied) == {3}
        tree.publish()
        assert contents(self.open(target)) == {
            SEAL: b"{}",
            **{f"{number % 5}/{number}": b"one" for number in range(40)},
        }

    def test_6_a_large_file_is_copied_byte_by_byte(self, target: str, source: Storage) -> None:
        data = b"".join(b"%010d" % number for number in range(2_500_000))
        source.publish("large", data)
        tree = self.create(target, SEAL)
        tree.write(SEAL, b"{}")
        assert tree.copy(source, "large", "large") == len(data)
        tree.publish()
        assert self.open(target).read("large") == data

    def test_6_a_missing_source_is_called_missing(self, target: str, source: Storage) -> None:
        tree = self.create(target, SEAL)
        with pytest.raises(FileMissing) as missing:
            tree.copy(source, "nowhere", "file")
        assert missing.value.ids["path"] == source.locate("nowhere")
        tree.discard()

    def test_6_a_link_has_the_bytes_of_its_source_or_is_refused(
        self, target: str, source: Storage
    ) -> None:
        tree = self.create(target, SEAL)
        tree.write(SEAL, b"{}")
        if not self.has_links:
            with pytest.raises(StorageError, match="hint: Copy"):
                tree.link(source, "1.txt", "linked")
            tree.discard()
            return
        assert tree.link(source, "deep/er/2.txt", "linked/2.txt") == 150_000
        tree.publish()
        assert self.open(target).read("linked/2.txt") == FILES["deep/er/2.txt"]

    def test_the_source_is_not_touched(self, target: str, source: Storage) -> None:
        before = exactly(source)
        copy_all(self.create, source, target)
        assert exactly(source) == before

    def test_a_path_that_leads_elsewhere_is_refused(self, target: str, source: Storage) -> None:
        tree = self.create(target, SEAL)
        with pytest.raises(UsageError):
            tree.write("../file", b"x")
        with pytest.raises(UsageError):
            tree.copy(source, "1.txt", "/tmp/file")
        tree.discard()
