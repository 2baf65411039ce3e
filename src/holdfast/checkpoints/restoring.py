"""Building the working directory of a new attempt from a checkpoint.

Every file is checked (there, right size, right checksum) before the attempt appears; what is not
usable is refused with the file named, and nothing has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from holdfast.checkpoints.checksums import size_and_checksum
from holdfast.checkpoints.metadata import CheckpointMetadata, RegionSnapshot, StoredFile
from holdfast.errors import DamagedFile, FileMissing, MissingFile, StorageError
from holdfast.querylog.checksums import crc32c
from holdfast.querylog.progress import in_parallel
from holdfast.querylog.snapshots import edited_offsets, is_offsets_of, moved, names_its_place
from holdfast.storage import Storage, Tree
from holdfast.storage.trees import can_link


def restore_region(
    tree: Tree, files: Storage, region: RegionSnapshot, to: str, location: str
) -> None:
    """Put a region's query log into the tree at ``to``, which will be found at ``location``."""
    barriers = {i.uid: i.barrier for i in region.inputs if i.barrier is not None}

    def restore(file: StoredFile) -> None:
        data = contents(files, file)
        if names_its_place(file.path):
            data = moved(file.path, data, location)
        elif is_offsets_of(file.path, region.cut):
            data = edited_offsets(data, _back_to(barriers), file.path)
        elif _linked(tree, files, file, f"{to}/{file.path}"):
            return
        tree.write(f"{to}/{file.path}", data)

    in_parallel(restore, region.files)


def link_file(tree: Tree, files: Storage, file: StoredFile, to: str) -> None:
    """Put a file into the tree, by a second name where that is possible; checked all the same."""
    if file.place is not None and _linked(tree, files, file, to):
        _refuse_altered(file, files.locate(file.place), *size_and_checksum(files, file.place))
    else:
        tree.write(to, contents(files, file))


def _linked(tree: Tree, files: Storage, file: StoredFile, to: str) -> bool:
    """Whether the file could get a second name instead of a copy. Spark never writes into one."""
    if file.place is None or not can_link(files):
        return False
    try:
        tree.link(files, file.place, to)
    except StorageError:  # another disk
        return False
    return True


def _back_to(barriers: Mapping[str, int]) -> Callable[[str], str]:
    """A position behind the barrier goes back to it: those rows come again (at least once)."""

    def edit(offset: str) -> str:
        found = json.loads(offset) if offset.startswith("{") else {}
        channel = str(found.get("channel"))
        if channel in barriers and found["segment"] > barriers[channel]:
            return json.dumps({**found, "segment": barriers[channel]}, separators=(",", ":"))
        return offset

    return edit


def contents(files: Storage, file: StoredFile) -> bytes:
    """The bytes of a stored file, if they are what was stored."""
    where = file.path if file.place is None else files.locate(file.place)
    data = file.contents()
    if data is None:
        data = _read(files, file, where)
    _refuse_altered(file, where, len(data), f"{crc32c(data):08x}")
    return data


def _refuse_altered(file: StoredFile, where: str, size: int, checksum: str) -> None:
    if (size, checksum) != (file.size, file.crc32c):
        raise DamagedFile(
            "a file of the checkpoint was altered: size or checksum does not fit",
            hint="Restore from another checkpoint; `holdfast checkpoints JOB` lists them.",
            path=where,
            expected=f"{file.size} bytes, crc32c {file.crc32c}",
        )


def _read(files: Storage, file: StoredFile, where: str) -> bytes:
    if file.place is None:
        raise DamagedFile("a file of the checkpoint is neither inside nor beside it", path=where)
    try:
        return files.read(file.place)
    except FileMissing as cause:
        raise MissingFile(
            "a file of the checkpoint is missing",
            hint="Restore from another checkpoint. If the checkpoint was moved, move shared/ "
            "with it: only savepoints stand alone.",
            path=where,
        ) from cause


def verify(metadata: CheckpointMetadata, files: Storage) -> None:
    """Read every file of a checkpoint; the first that is missing or altered is named."""
    in_parallel(lambda file: len(contents(files, file)), metadata.files)
