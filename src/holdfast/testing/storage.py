# ruff: noqa: D102  the name of a test is its sentence
"""The rules of ``Storage``, as tests to run against your own implementation.

Subclass in a test file, say how to open your storage and give a place where nothing is yet::

    class TestMyStorage(StorageContract):
        open = staticmethod(MyStorage)  # any function of a module: it is pickled

        @pytest.fixture
        def location(self, tmp_path):
            return f"my://host/{tmp_path.name}"

``holdfast.testing.storage_tree`` has the rules of ``Tree``. Needs pytest.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from holdfast.errors import AlreadyPublished, FileMissing, UsageError
from holdfast.storage import Storage, open_storage
from holdfast.testing.interruption import kill_at_every_step, overtake_at_every_step, race
from holdfast.testing.storage_work import Open, own_bytes, publish_common, publish_own, publishing

ODD_NAMES = ["a b", "per%20cent", "x=1/part", "ümlaut", "plus+", "#1", "~x", ".hidden", "_meta"]


class StorageContract:
    """Each test states one rule; the numbers are those in ``holdfast.storage.interface``."""

    open: Open = staticmethod(open_storage)
    racers = 4
    stride = 1
    """Processes die at every step; at every n-th where starting a process is dear."""
    clock_skew = 5.0
    """Seconds by which the server's clock may differ from ours."""

    @pytest.fixture
    def location(self) -> str:
        """A URI below which nothing is yet, another one for each test."""
        raise NotImplementedError

    @pytest.fixture
    def storage(self, location: str) -> Storage:
        """The storage under test, empty."""
        return self.open(location)

    @pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 12_000])
    def test_what_was_published_is_read_back(self, storage: Storage, data: bytes) -> None:
        storage.publish("some/file", data)
        assert storage.read("some/file") == data

    def test_1_a_publisher_killed_at_any_step_leaves_all_or_nothing(
        self, storage: Storage, location: str
    ) -> None:
        data = b"all" * 1000
        publish = partial(publishing, self.open, location, data)
        for step in kill_at_every_step(publish, self.stride):
            found = storage.list()
            assert [file.path for file in found] in ([], ["dir/file"]), f"at step {step}"
            assert not found or storage.read("dir/file") == data, f"at step {step}"
            storage.publish("dir/file", data)
            assert [file.path for file in storage.list()] == ["dir/file"], f"after step {step}"
            storage.delete("dir/file")

    def test_2_publishing_the_same_again_does_nothing(self, storage: Storage) -> None:
        storage.publish("file", b"same")
        before = storage.list()
        storage.publish("file", b"same")
        assert storage.list() == before

    def test_2_publishing_other_bytes_is_refused(self, storage: Storage) -> None:
        storage.publish("file", b"first")
        for other in (b"other", b"", b"first and more"):
            with pytest.raises(AlreadyPublished) as refused:
                storage.publish("file", other)
            assert refused.value.ids["path"] == storage.locate("file")
        assert storage.read("file") == b"first"

    def test_2_a_publisher_that_is_overtaken_at_any_step_wins_or_is_told(
        self, storage: Storage, location: str
    ) -> None:
        slow = partial(publishing, self.open, location, b"slow" * 1000)
        fast = publishing(self.open, location, b"fast" * 1000)
        for step, there, here in overtake_at_every_step(slow, fast, self.stride):
            assert {there, here} == {"won", "lost"}, f"at step {step}"
            winner = b"slow" if there == "won" else b"fast"
            assert storage.read("dir/file") == winner * 1000, f"at step {step}"
            storage.delete("dir/file")

    def test_2_of_racing_publishers_one_wins_and_the_others_are_told(
        self, storage: Storage, location: str
    ) -> None:
        rounds = race(partial(publish_own, self.open, location), self.racers, rounds=8)
        for number, told in enumerate(rounds):
            assert sorted(told) == ["lost"] * (self.racers - 1) + ["won"]
            assert storage.read(f"round-{number}") == own_bytes(told.index("won"))

    def test_2_racing_publishers_of_the_same_bytes_all_succeed(self, location: str) -> None:
        rounds = race(partial(publish_common, self.open, location), self.racers, rounds=4)
        assert rounds == [["won"] * self.racers] * 4

    def test_3_and_4_list_is_recursive_and_sorted_by_path(self, storage: Storage) -> None:
        sizes = {"b": 1, "a/z": 2, "a/b/c": 3, "a-b": 4, "a.b": 5, "A": 0, "a/.x.crc": 6}
        for path, size in sizes.items():
            storage.publish(path, b"x" * size)
        listed = storage.list()
        assert [file.path for file in listed] == sorted(sizes)
        assert {file.path: file.size for file in listed} == sizes
        assert all(abs(time.time() - file.modified) < 60 + self.clock_skew for file in listed)

    def test_4_list_below_a_path_shows_only_what_is_below_it(self, storage: Storage) -> None:
        for path in ("a/b/c", "a/d", "ab/e", "f"):
            storage.publish(path, b"")
        assert [file.path for file in storage.list("a")] == ["a/b/c", "a/d"]
        assert [file.path for file in storage.list("a/b")] == ["a/b/c"]

    def test_4_list_of_what_is_not_a_directory_is_empty(self, storage: Storage) -> None:
        assert storage.list() == []
        storage.publish("file", b"x")
        assert storage.list("nowhere") == storage.list("file") == storage.list("file/below") == []

    def test_5_a_missing_file_is_called_missing(self, storage: Storage) -> None:
        storage.publish("dir/file", b"x")
        for path in ("nowhere", "dir", "dir/file/below"):
            for use in (storage.read, lambda path: storage.open(path).read()):
                with pytest.raises(FileMissing) as missing:
                    use(path)
                assert missing.value.ids["path"] == storage.locate(path)

    def test_6_delete_removes_a_file_and_tolerates_its_absence(self, storage: Storage) -> None:
        storage.publish("dir/file", b"x")
        for path in ("nowhere", "dir", "dir/file/below"):
            storage.delete(path)
        assert storage.read("dir/file") == b"x"
        storage.delete("dir/file")
        storage.delete("dir/file")
        assert storage.list() == []
        storage.publish("dir/file", b"another life")
        assert storage.read("dir/file") == b"another life"

    def test_7_reading_changes_nothing(self, storage: Storage) -> None:
        storage.publish("dir/file", b"x")
        before = storage.list()
        storage.read("dir/file")
        storage.open("dir/file").close()
        storage.list("dir")
        assert storage.list() == before

    def test_8_many_threads_may_use_one_storage(self, storage: Storage) -> None:
        def publish_and_read(number: int) -> tuple[str, bytes]:
            storage.publish(f"{number % 4}/{number:02}", b"%d" % number)
            return f"{number % 4}/{number:02}", storage.read(f"{number % 4}/{number:02}")

        with ThreadPoolExecutor(8) as threads:
            read = dict(threads.map(publish_and_read, range(40)))
        assert read == {f"{n % 4}/{n:02}": b"%d" % n for n in range(40)}
        assert [file.path for file in storage.list()] == sorted(read)

    def test_a_stream_gives_the_bytes_in_order(self, storage: Storage) -> None:
        data = b"".join(b"%08d" % number for number in range(400_000))
        storage.publish("file", data)
        with storage.open("file") as stream:
            assert stream.read(10) == data[:10]
            assert stream.read(1 << 20) == data[10 : 10 + (1 << 20)]
            assert b"".join(iter(partial(stream.read, 1 << 16), b"")) == data[10 + (1 << 20) :]
            assert stream.read(1) == b""

    def test_odd_names_are_kept(self, storage: Storage) -> None:
        for name in ODD_NAMES:
            storage.publish(name, name.encode())
        assert [file.path for file in storage.list()] == sorted(ODD_NAMES)
        assert {name: storage.read(name).decode() for name in ODD_NAMES} == {
            name: name for name in ODD_NAMES
        }

    def test_a_location_can_be_opened_again(self, storage: Storage) -> None:
        storage.publish("dir/file", b"x")
        assert storage.locate("") == storage.uri
        assert self.open(storage.uri).list() == storage.list()
        below = self.open(storage.locate("dir"))
        assert below.read("file") == b"x"
        assert below.uri == storage.locate("dir")

    @pytest.mark.parametrize("path", ["../file", "a/../../b", "/etc/passwd", "a//b", "./a", "a/"])
    def test_a_path_that_leads_elsewhere_is_refused(self, storage: Storage, path: str) -> None:
        with pytest.raises(UsageError):
            storage.publish(path, b"x")
        with pytest.raises(UsageError):
            storage.read(path)
        assert storage.list() == []
