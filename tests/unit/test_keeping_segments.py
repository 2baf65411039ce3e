"""In-flight segments in a checkpoint: linked where that is possible, kept once, checked on the way
back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkpoints.metadata import METADATA, StoredFile
from holdfast.checkpoints.restoring import link_file, verify
from holdfast.checkpoints.store import CheckpointStore, CheckpointWriter, read_checkpoint
from holdfast.checkpoints.taking import Keeping, Sizes, copy_segment, link_segment
from holdfast.errors import DamagedFile, StorageError
from holdfast.storage import create_tree, open_storage
from holdfast.storage.local import LocalStorage
from holdfast.storage.local_tree import LocalTree
from tests.property.store_model import metadata_of

FULL = Keeping(incremental=False, inline_below=10)
INCREMENTAL = Keeping(incremental=True, inline_below=10)
OWNER = "1/left.0"
LARGE = b"many rows" * 100


@pytest.fixture
def segment(tmp_path: Path) -> LocalStorage:
    folder = tmp_path / "work/segments/0"
    folder.mkdir(parents=True)
    (folder / "large.parquet").write_bytes(LARGE)
    (folder / "small.parquet").write_bytes(b"few rows")
    return LocalStorage(folder)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(str(tmp_path / "kept"))


def sizes(files: LocalStorage) -> Sizes:
    return [(info.path, info.size) for info in files.list()]


def inode(storage: LocalStorage, path: str) -> int:
    return Path(storage.locate(path)).stat().st_ino


def completed(writer: CheckpointWriter, files: tuple[StoredFile, ...]) -> LocalStorage:
    """The checkpoint as whoever restores it finds it."""
    writer.complete(metadata_of(writer.checkpoint, files))
    location = writer._store.path_of(writer.checkpoint)
    verify(*read_checkpoint(location))
    return LocalStorage(writer._store.location)


def place_of(files: tuple[StoredFile, ...], name: str) -> str | None:
    return next(file.place for file in files if file.path == name)


@pytest.mark.parametrize("keeping", [FULL, INCREMENTAL])
def test_a_segment_in_flight_is_linked_and_no_byte_is_written(
    store: CheckpointStore, segment: LocalStorage, keeping: Keeping
) -> None:
    writer = store.begin(1)
    kept = link_segment(writer, keeping, OWNER, segment, sizes(segment))
    found = completed(writer, kept.files)
    place = place_of(kept.files, "large.parquet")
    assert place == f"chk-1/{OWNER}/large.parquet"
    assert inode(found, place) == inode(segment, "large.parquet")
    assert kept.written == (len(b"few rows") if keeping is FULL else 0)
    # The reader has read it: the checkpoint still has it.
    segment.delete("large.parquet")
    verify(*read_checkpoint(store.path_of(1)))


@pytest.mark.parametrize("keeping", [FULL, INCREMENTAL])
def test_rows_that_a_commit_needs_are_copied(
    store: CheckpointStore, segment: LocalStorage, keeping: Keeping
) -> None:
    writer = store.begin(1)
    kept = copy_segment(writer, keeping, OWNER, segment, sizes(segment))
    found = completed(writer, kept.files)
    place = place_of(kept.files, "large.parquet")
    assert place is not None
    assert place.startswith("shared/") == (keeping is INCREMENTAL)
    assert inode(found, place) != inode(segment, "large.parquet")
    assert kept.written == len(LARGE) + len(b"few rows")


def refuse(*_: Any) -> Any:
    raise StorageError("cannot read: Invalid cross-device link")


def not_whole(storage: LocalStorage, path: str) -> bytes:
    raise AssertionError(f"{path} was read whole, which may not fit into memory")


def test_a_segment_on_another_disk_is_copied_piece_by_piece(
    store: CheckpointStore, segment: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalTree, "link", refuse)
    monkeypatch.setattr(LocalStorage, "read", not_whole)
    writer = store.begin(1)
    kept = link_segment(writer, FULL, OWNER, segment, [("large.parquet", len(LARGE))])
    monkeypatch.undo()
    found = completed(writer, kept.files)
    assert kept.written == len(LARGE)
    assert found.read(f"chk-1/{OWNER}/large.parquet") == LARGE


def test_a_segment_that_was_cut_short_fails_the_snapshot(
    store: CheckpointStore, segment: LocalStorage
) -> None:
    with pytest.raises(StorageError, match="not as large as when it was written"):
        link_segment(store.begin(1), FULL, OWNER, segment, [("large.parquet", len(LARGE) + 1)])


@pytest.mark.parametrize("keep", [link_segment, copy_segment])
def test_a_segment_that_two_readers_have_not_read_is_kept_once(
    store: CheckpointStore, segment: LocalStorage, keep: Any
) -> None:
    writer = store.begin(1)
    start = threading.Barrier(4)

    def snapshot() -> tuple[StoredFile, ...]:
        start.wait()
        files: tuple[StoredFile, ...] = keep(writer, FULL, OWNER, segment, sizes(segment)).files
        return files

    with ThreadPoolExecutor(4) as regions:
        kept = [done.result() for done in [regions.submit(snapshot) for _ in range(4)]]
    assert len(set(kept)) == 1
    completed(writer, kept[0])


class FailsOnce(LocalTree):
    """The first file does not fit on the disk."""

    fails = True

    def copy(self, source: Any, path: str, to: str) -> int:
        if self.fails:
            self.fails = False
            raise StorageError("cannot write: No space left on device", path=to)
        return super().copy(source, path, to)


def test_whoever_comes_second_writes_the_file_if_the_first_could_not(
    store: CheckpointStore, segment: LocalStorage, tmp_path: Path
) -> None:
    writer = store.begin(1)
    writer._tree = FailsOnce(tmp_path / "kept/chk-1", METADATA)
    wanted = [("large.parquet", len(LARGE))]
    with pytest.raises(StorageError, match="No space left"):
        copy_segment(writer, FULL, OWNER, segment, wanted)
    kept = copy_segment(writer, FULL, OWNER, segment, wanted)
    completed(writer, kept.files)


# The way back


def test_a_linked_segment_comes_back_as_a_link_and_what_was_altered_is_refused(
    store: CheckpointStore, segment: LocalStorage, tmp_path: Path
) -> None:
    writer = store.begin(1)
    kept = link_segment(writer, FULL, OWNER, segment, sizes(segment))
    files = completed(writer, kept.files)
    tree = create_tree(tmp_path / "again", "seal")
    for file in kept.files:
        link_file(tree, files, file, file.path)
    tree.write("seal", b"")
    tree.publish()
    again = LocalStorage(tmp_path / "again")
    assert again.read("small.parquet") == b"few rows"
    assert inode(again, "large.parquet") == inode(segment, "large.parquet")

    large = next(file for file in kept.files if file.path == "large.parquet")
    Path(files.locate(large.place or "")).write_bytes(LARGE[::-1])
    damaged = create_tree(tmp_path / "damaged", "seal")
    with pytest.raises(DamagedFile, match="was altered"):
        link_file(damaged, open_storage(files.uri), large, "large.parquet")
    damaged.discard()
