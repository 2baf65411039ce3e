from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO

import pytest

from holdfast.errors import FileMissing, StorageError, UnknownFormat
from holdfast.sinks.files import manifest as manifest_module
from holdfast.sinks.files.manifest import (
    CommittedEpoch,
    Manifest,
    decode,
    encode,
    entry_at,
    read_manifest,
    to_gather,
)
from holdfast.storage import FileInfo


class Memory:
    """A storage that can be cut off after some operations, and be looked over the shoulder."""

    uri = "memory"

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.operations_left: int | None = None
        self.before_read: Callable[[], None] | None = None

    def list(self, path: str = "") -> list[FileInfo]:
        names = [name for name in sorted(self.kept) if name.startswith(f"{path}/")]
        return [FileInfo(name, len(self.kept[name]), 0.0) for name in names]

    def read(self, path: str) -> bytes:
        if self.before_read is not None:
            meanwhile, self.before_read = self.before_read, None
            meanwhile()
        if path not in self.kept:
            raise FileMissing("there is no such file", path=path)
        return self.kept[path]

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path))

    def publish(self, path: str, data: bytes) -> None:
        self._change()
        self.kept.setdefault(path, data)

    def delete(self, path: str) -> None:
        self._change()
        self.kept.pop(path, None)

    def locate(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def _change(self) -> None:
        if self.operations_left is not None:
            if not self.operations_left:
                raise StorageError("cut off")
            self.operations_left -= 1


def epoch(checkpoint: int, sink: str = "out", staged: float | None = None) -> CommittedEpoch:
    files = ((f"{sink}-{checkpoint}.parquet", 10), (f"day=1/{sink}-{checkpoint}.parquet", 20))
    when = float(checkpoint) if staged is None else staged
    return CommittedEpoch("0" * 32, sink, checkpoint, 7, when, files)


def manifest_of(storage: Memory, sink: str = "out") -> Manifest:
    return Manifest(storage, "0" * 32, sink)


def everything_is_there(name: str) -> bool:
    return True


def filled(epochs: int) -> Memory:
    storage = Memory()
    for number in range(1, epochs + 1):
        manifest_of(storage).add(epoch(number))
    return storage


def checkpoints(storage: Memory) -> list[int]:
    return [found.checkpoint for found in read_manifest(storage)]


def test_what_is_written_is_read_again() -> None:
    epochs = [epoch(1), replace(epoch(2), files=(("k=ü %2F/x.json.gz", 1),))]
    assert decode(encode(epochs), "here") == epochs


def test_a_manifest_of_a_newer_release_is_refused() -> None:
    with pytest.raises(UnknownFormat, match="version 9"):
        decode(b'{"version": 9}', "here")


def test_other_files_are_not_taken_for_the_manifest() -> None:
    assert entry_at("a/000000000007.json") is not None
    assert entry_at("a/.000000000007.json.crc") is None
    assert entry_at("a/notes.txt") is None


def test_few_files_are_left_alone_and_the_newest_epoch_always() -> None:
    entries = [entry for n in range(1, 102) if (entry := entry_at(f"{n:012d}.json"))]
    assert to_gather(entries[:100]) == []
    assert [entry.first for entry in to_gather(entries)] == list(range(1, 101))


def test_the_number_of_files_stays_small_and_no_epoch_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manifest_module, "_GATHERED", 10)
    storage = Memory()
    manifest = manifest_of(storage)
    most = 0
    for number in range(1, 1_036):
        manifest.add(epoch(number))
        manifest.gather(everything_is_there)
        most = max(most, len(storage.kept))
    assert most <= 10 + 10 + 10
    assert checkpoints(storage) == list(range(1, 1_036))
    assert manifest.newest() == epoch(1_035)
    assert manifest.has(5)
    assert manifest.has(1_035)
    assert not manifest.has(1_036)


def test_a_checkpoint_between_others_that_was_not_committed_is_not_known() -> None:
    storage = filled(0)
    for number in (n for n in range(1, 110) if n != 50):
        manifest_of(storage).add(epoch(number))
    manifest_of(storage).gather(everything_is_there)
    assert any("-" in name.rpartition("/")[2] for name in storage.kept)
    assert not manifest_of(storage).has(50)


def test_gathering_that_is_cut_off_anywhere_changes_nothing_for_readers() -> None:
    left = 0
    while True:
        storage = filled(103)
        storage.operations_left = left
        try:
            manifest_of(storage).gather(everything_is_there)
        except StorageError:
            assert checkpoints(storage) == list(range(1, 104)), left
        else:
            break
        storage.operations_left = None
        for number in range(104, 260):
            manifest_of(storage).add(epoch(number))
            manifest_of(storage).gather(everything_is_there)
        assert checkpoints(storage) == list(range(1, 260)), left
        left += 7
    assert left > 100


def test_a_reader_that_is_overtaken_by_gathering_reads_again() -> None:
    storage = filled(103)
    storage.before_read = lambda: manifest_of(storage).gather(everything_is_there)
    assert checkpoints(storage) == list(range(1, 104))


def test_a_list_that_lacks_what_went_and_what_it_went_into_is_not_believed() -> None:
    class Torn(Memory):
        """The first list is read while files are gathered: it has passed the place of the new
        one, and comes to the old ones when they are gone."""

        lists = 0

        def list(self, path: str = "") -> list[FileInfo]:
            self.lists += 1
            if self.lists > 1:
                return super().list(path)
            before = {info.path for info in super().list(path)}
            manifest_of(self).gather(everything_is_there)
            return [info for info in super().list(path) if info.path in before]

    storage = Torn()
    storage.kept = filled(103).kept
    assert checkpoints(storage) == list(range(1, 104))


def test_epochs_of_which_no_file_is_left_are_forgotten_when_they_are_gathered() -> None:
    storage = filled(103)
    manifest_of(storage).gather(lambda name: name not in dict(epoch(5).files))
    assert checkpoints(storage) == [n for n in range(1, 104) if n != 5]
    storage = filled(103)
    manifest_of(storage).gather(lambda name: False)
    assert checkpoints(storage) == [103]


def test_epochs_of_a_sink_stay_in_order_when_the_clock_is_set_back() -> None:
    storage = Memory()
    for number, staged in ((1, 10.0), (2, 20.0), (3, 5.0)):
        manifest_of(storage).add(epoch(number, staged=staged))
    manifest_of(storage, "other").add(epoch(1, "other", staged=15.0))
    found = [(e.sink, e.checkpoint) for e in read_manifest(storage)]
    assert found == [("out", 1), ("other", 1), ("out", 2), ("out", 3)]
