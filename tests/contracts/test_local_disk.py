"""What only a local disk can do: run full, be read-only, hold links, and outlive its writers."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.errors import DestinationExists, FileMissing, StorageError
from holdfast.storage import Storage, Tree, create_tree, open_storage
from holdfast.storage.names import staging_name
from holdfast.testing.interruption import kill_at
from holdfast.testing.storage_work import contents
from tests.services.processes import missing

SEAL = "seal"


@pytest.fixture
def source(tmp_path: Path) -> Storage:
    source = open_storage(tmp_path / "source")
    source.publish("small", b"small")
    source.publish("large", bytes(3 << 20))
    return source


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "holdfast-tests", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        missing("a small disk needs the right to mount one")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def read_only(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory that cannot be written; for root that takes a read-only file system."""
    if os.geteuid() == 0:
        disk: Path = request.getfixturevalue("small_disk")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        return disk
    directory = tmp_path / "read-only"
    directory.mkdir(mode=0o555)
    return directory


def begun(target: Path) -> Tree:
    tree = create_tree(target, SEAL)
    tree.write(SEAL, b"{}")
    return tree


class TestAFullDisk:
    def test_a_copy_says_so_and_leaves_nothing(self, small_disk: Path, source: Storage) -> None:
        tree = begun(small_disk / "deep" / "target")
        with pytest.raises(StorageError, match="No space left on device") as full:
            tree.copy(source, "large", "dir/large")
        assert full.value.ids["path"] == str(small_disk / "deep" / "target" / "dir" / "large")
        assert "bytes left" in (full.value.hint or "")
        tree.discard()
        assert list((small_disk / "deep").iterdir()) == []

    def test_a_written_file_says_so(self, small_disk: Path) -> None:
        tree = begun(small_disk / "target")
        with pytest.raises(StorageError, match="hint: Free some space"):
            tree.write("large", bytes(2 << 20))
        tree.discard()
        assert list(small_disk.iterdir()) == []

    def test_a_published_file_is_there_whole_or_not_at_all(self, small_disk: Path) -> None:
        storage = open_storage(small_disk)
        storage.publish("small", b"fits")
        with pytest.raises(StorageError, match="hint: Free some space"):
            storage.publish("large", bytes(2 << 20))
        assert contents(storage) == {"small": b"fits"}
        assert [entry.name for entry in small_disk.iterdir()] == ["small"]


class TestAReadOnlyDirectory:
    def test_a_tree_is_refused_when_it_is_begun(self, read_only: Path) -> None:
        with pytest.raises(StorageError, match=r"Read-only file system|Permission denied") as error:
            create_tree(read_only / "target", SEAL)
        assert error.value.ids["path"] == str(read_only / "target")
        assert error.value.hint

    def test_a_file_is_refused(self, read_only: Path) -> None:
        with pytest.raises(StorageError, match=r"Read-only file system|Permission denied"):
            open_storage(read_only).publish("file", b"x")
        assert open_storage(read_only).list() == []


class TestATreeThatNobodyHolds:
    def test_it_leaves_nothing(self, tmp_path: Path) -> None:
        create_tree(tmp_path / "target", SEAL)  # as if Ctrl-C had struck on the way back
        assert list(tmp_path.iterdir()) == []

    def test_a_published_one_stays(self, tmp_path: Path) -> None:
        begun(tmp_path / "target").publish()
        assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


class TestTheTarget:
    def test_a_file_in_its_place_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "target").touch()
        with pytest.raises(DestinationExists):
            create_tree(tmp_path / "target", SEAL)

    def test_an_empty_directory_in_its_place_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "target").mkdir()
        with pytest.raises(DestinationExists):
            create_tree(tmp_path / "target", SEAL)

    def test_a_dangling_link_in_its_place_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "target").symlink_to("nowhere")
        with pytest.raises(DestinationExists):
            create_tree(tmp_path / "target", SEAL)

    @pytest.mark.parametrize("appear", ["mkdir", "touch"])
    def test_what_appears_while_the_tree_is_built_is_kept(
        self, tmp_path: Path, appear: str
    ) -> None:
        tree = begun(tmp_path / "target")
        getattr(tmp_path / "target", appear)()
        with pytest.raises(DestinationExists):
            tree.publish()
        assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


class TestRemains:
    def test_of_a_dead_process_are_removed_by_the_next_tree(self, tmp_path: Path) -> None:
        target = tmp_path / "target"
        assert kill_at(partial(writing_without_end, target), 30)
        assert list(tmp_path.iterdir())
        begun(target).publish()
        assert [entry.name for entry in tmp_path.iterdir()] == ["target"]

    def test_of_a_living_process_and_of_other_targets_are_kept(self, tmp_path: Path) -> None:
        other = tmp_path / staging_name("other")
        other.mkdir()
        slow, fast = begun(tmp_path / "target"), begun(tmp_path / "target")
        fast.publish()
        slow.write("file", b"x")
        with pytest.raises(DestinationExists):
            slow.publish()
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [other.name, "target"]


class TestCopiesAndLinks:
    def test_a_copy_crosses_file_systems(self, small_disk: Path, source: Storage) -> None:
        tree = begun(small_disk / "target")
        assert tree.copy(source, "small", "small") == 5
        tree.publish()
        assert open_storage(small_disk / "target").read("small") == b"small"

    def test_a_link_does_not_and_says_what_to_do(self, small_disk: Path, source: Storage) -> None:
        tree = begun(small_disk / "target")
        with pytest.raises(StorageError, match=r"hint: .*Copy the file instead"):
            tree.link(source, "small", "small")
        tree.discard()

    def test_a_link_is_the_same_file(self, tmp_path: Path, source: Storage) -> None:
        tree = begun(tmp_path / "target")
        assert tree.link(source, "small", "dir/small") == 5
        tree.publish()
        assert (tmp_path / "target/dir/small").samefile(source.locate("small"))

    def test_a_link_to_a_symbolic_link_is_one_to_its_file(
        self, tmp_path: Path, source: Storage
    ) -> None:
        Path(source.locate("alias")).symlink_to("small")
        tree = begun(tmp_path / "target")
        tree.link(source, "alias", "deep/er/alias")
        tree.publish()
        assert (tmp_path / "target/deep/er/alias").read_bytes() == b"small"

    def test_a_link_to_nothing_is_called_missing(self, tmp_path: Path, source: Storage) -> None:
        tree = begun(tmp_path / "target")
        with pytest.raises(FileMissing):
            tree.link(source, "nowhere", "file")
        tree.discard()

    def test_a_file_that_changes_while_it_is_copied_is_refused(
        self, tmp_path: Path, source: Storage
    ) -> None:
        changing, stop = Path(source.locate("changing")), threading.Event()
        with changing.open("wb") as file:
            file.truncate(256 << 20)

        def change() -> None:
            while not stop.is_set():
                os.utime(changing)

        writer = threading.Thread(target=change)
        writer.start()
        tree = begun(tmp_path / "target")
        try:
            with pytest.raises(StorageError, match="changed while it was being copied"):
                tree.copy(source, "changing", "file")
        finally:
            stop.set()
            writer.join()
            tree.discard()


def writing_without_end(target: Path) -> Callable[[], None]:
    def write() -> None:
        tree = create_tree(target, SEAL)
        for number in itertools.count():
            tree.write(f"dir/{number}", b"x")

    return write
