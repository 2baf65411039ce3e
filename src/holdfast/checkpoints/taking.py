"""Copying a region's state handle and in-flight segments into a checkpoint.

Sync phase: work out the handle and pin its files, so that Spark's clean-up cannot take them away.
Async phase: copy what the storage does not have yet. A file in ``shared/`` is named after its path,
size and checksum; one that is there already is not read again. In-flight segments on the same disk
are linked: they never change, and a checkpoint should not take longer because much is in flight.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.checkpoints.checksums import size_and_checksum
from holdfast.checkpoints.metadata import StoredFile
from holdfast.checkpoints.store import SHARED, CheckpointWriter
from holdfast.errors import FileMissing, MissingFile, StorageError
from holdfast.querylog.checksums import crc32c
from holdfast.querylog.progress import in_parallel
from holdfast.querylog.snapshots import LogSnapshot, SnapshotFile, known_checksum, snapshot
from holdfast.steps import step
from holdfast.storage import Storage, open_storage
from holdfast.storage.trees import can_link, delete_tree, link

_TRIES = 5


class TooLarge(StorageError):
    """The snapshot does not fit into the memory that the storage allows for it."""

    code = "SNAPSHOT_TOO_LARGE"
    retryable = False


@dataclass(frozen=True, slots=True)
class Keeping:
    """How files are kept."""

    incremental: bool
    inline_below: int
    """Files up to this size go into ``_metadata``."""
    memory_limit: int | None = None
    """With storage ``jobmanager`` everything goes into ``_metadata``, up to this many bytes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The files of one part of a checkpoint, and how many bytes had to be written for them."""

    files: tuple[StoredFile, ...]
    written: int


class Pinned:
    """A state handle whose files stay until ``release``."""

    def __init__(
        self,
        plan: LogSnapshot,
        origin: Storage,
        files: Storage,
        pins: tuple[Storage, str] | None,
    ) -> None:
        self.plan = plan
        self.origin = origin
        self.files = files
        self._pins = pins

    def release(self) -> None:
        """Let Spark clean up again."""
        if self._pins is not None:
            delete_tree(*self._pins)


def pin(location: str, batch: int, work: Storage, pins: str) -> Pinned:
    """The handle of a committed batch, pinned by hard links below ``pins`` in ``work``.

    Where there are no links, Spark's own retention (``minBatchesToRetain``) is the pin; a file that
    vanishes all the same fails the snapshot, never the restore.
    """
    for tries_left in reversed(range(_TRIES)):
        plan = snapshot(location, batch)
        origin = open_storage(location)
        if not can_link(work):
            return Pinned(plan, origin, origin, None)
        try:
            for file in plan.files:
                link(origin, file.path, work.locate(f"{pins}/{file.path}"))
            pinned = open_storage(work.locate(pins))
            return Pinned(plan, origin, pinned, (work, pins))
        except FileMissing:
            # Spark replaced what was planned by a newer snapshot file: plan again.
            delete_tree(work, pins)
            if not tries_left:
                raise
    raise AssertionError("unreachable")


class Checksums:
    """Checksums of files that never change, so that none is read twice."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int, float], str] = {}
        self._lock = threading.Lock()

    def get(self, region: str, file: SnapshotFile) -> str | None:
        """The checksum, if it is known."""
        with self._lock:
            return self._known.get((region, file.path, file.size, file.modified))

    def learn(self, region: str, file: SnapshotFile, checksum: str) -> None:
        """Remember a checksum."""
        with self._lock:
            self._known[region, file.path, file.size, file.modified] = checksum

    def forget_all_but(self, region: str, files: Sequence[SnapshotFile]) -> None:
        """Forget files of a region that are no longer part of its handle."""
        keep = {(region, f.path, f.size, f.modified) for f in files}
        with self._lock:
            self._known = {k: v for k, v in self._known.items() if k[0] != region or k in keep}


def keep_region(
    writer: CheckpointWriter,
    keeping: Keeping,
    checksums: Checksums,
    owner: str,
    pinned: Pinned,
) -> Kept:
    """Put a pinned handle into the checkpoint. ``owner`` tells its files from other regions'."""
    with step("copy"):
        results = in_parallel(
            lambda file: _keep_file(writer, keeping, checksums, owner, pinned, file),
            pinned.plan.files,
        )
    checksums.forget_all_but(owner, pinned.plan.files)
    return _kept(results, keeping)


Sizes = Sequence[tuple[str, int]]
"""Files of a segment: their names and how large they are."""


def link_segment(
    writer: CheckpointWriter, keeping: Keeping, owner: str, files: Storage, segment: Sizes
) -> Kept:
    """Put a segment of a channel into the checkpoint as in-flight data: a second name for each file
    where that is possible, a copy elsewhere."""

    def keep(file: tuple[str, int]) -> tuple[StoredFile, int]:
        name, size = file
        if _goes_inside(keeping, size, state=True):
            return _copied(writer, keeping, owner, files, file)
        try:
            place = writer.link_own(files, name, f"{owner}/{name}")
        except StorageError:  # another disk, or none with links
            return _copied(writer, keeping, owner, files, file)
        return StoredFile(name, size, _checksum(files, name, size), True, place), 0

    return _kept(in_parallel(keep, segment), keeping)


def copy_segment(
    writer: CheckpointWriter, keeping: Keeping, owner: str, files: Storage, segment: Sizes
) -> Kept:
    """Put a segment into the checkpoint that a commit will need. It is promised, so nothing that
    happens to the bytes of the working copy may happen to these."""
    copied = in_parallel(lambda file: _copied(writer, keeping, owner, files, file), segment)
    return _kept(copied, keeping)


def _copied(
    writer: CheckpointWriter, keeping: Keeping, owner: str, files: Storage, file: tuple[str, int]
) -> tuple[StoredFile, int]:
    name, size = file
    if keeping.incremental or _goes_inside(keeping, size, state=True):
        data = files.read(name)
        return _put(writer, keeping, owner, name, data, f"{crc32c(data):08x}", True)
    checksum = _checksum(files, name, size)
    place = writer.copy_own(files, name, f"{owner}/{name}")
    return StoredFile(name, size, checksum, True, place), size


def _checksum(files: Storage, name: str, size: int) -> str:
    found, checksum = size_and_checksum(files, name)
    if found != size:
        raise StorageError(
            "a segment is not as large as when it was written",
            hint="Something else writes to the working directory, or its disk is damaged.",
            path=files.locate(name),
            expected=size,
            found=found,
        )
    return checksum


def _keep_file(
    writer: CheckpointWriter,
    keeping: Keeping,
    checksums: Checksums,
    owner: str,
    pinned: Pinned,
    file: SnapshotFile,
) -> tuple[StoredFile, int]:
    if file.is_state and keeping.incremental:
        checksum = checksums.get(owner, file) or _spark_checksum(pinned.origin, file)
        if checksum is not None:
            name = _shared_name(owner, file.path, file.size, checksum)
            if writer.share(name, file.size):
                checksums.learn(owner, file, checksum)
                place = f"{SHARED}/{name}"
                return StoredFile(file.path, file.size, checksum, True, place), 0
    data = _read(pinned.files, file)
    checksum = f"{crc32c(data):08x}"
    checksums.learn(owner, file, checksum)
    return _put(writer, keeping, owner, file.path, data, checksum, file.is_state)


def _spark_checksum(files: Storage, file: SnapshotFile) -> str | None:
    known = known_checksum(files, file.path)
    return None if known is None else f"{known:08x}"


def _read(files: Storage, file: SnapshotFile) -> bytes:
    try:
        data = files.read(file.path)
    except FileMissing as cause:
        raise MissingFile(
            "Spark deleted a file while it was being copied",
            hint="Raise spark.sql.streaming.minBatchesToRetain, or checkpoint less often.",
            path=files.locate(file.path),
        ) from cause
    if len(data) != file.size:
        raise StorageError("the file changed while it was being copied", path=file.path)
    return data


def _put(
    writer: CheckpointWriter,
    keeping: Keeping,
    owner: str,
    path: str,
    data: bytes,
    checksum: str,
    state: bool,
) -> tuple[StoredFile, int]:
    size = len(data)
    if _goes_inside(keeping, size, state):
        inline = base64.b64encode(data).decode()
        return StoredFile(path, size, checksum, state, inline=inline), size
    if state and keeping.incremental:
        name = _shared_name(owner, path, size, checksum)
        if writer.share(name, size):
            return StoredFile(path, size, checksum, state, f"{SHARED}/{name}"), 0
        return StoredFile(path, size, checksum, state, writer.write_shared(name, data)), size
    place = writer.write_own(f"{owner}/{path}", data)
    return StoredFile(path, size, checksum, state, place), size


def _goes_inside(keeping: Keeping, size: int, state: bool) -> bool:
    """Whether a file becomes part of ``_metadata`` itself."""
    if keeping.memory_limit is not None:
        return True
    return size <= keeping.inline_below and not (state and keeping.incremental)


def _shared_name(owner: str, path: str, size: int, checksum: str) -> str:
    return f"{owner}/{path.replace('/', '_')}-{size}-{checksum}"


def _kept(results: list[tuple[StoredFile, int]], keeping: Keeping) -> Kept:
    files = tuple(file for file, _ in results)
    kept = Kept(files, sum(written for _, written in results))
    limit = keeping.memory_limit
    if limit is not None and (size := sum(file.size for file in files)) > limit:
        raise TooLarge(
            f"the snapshot has {size} bytes, and storage 'jobmanager' keeps at most {limit}",
            hint="Set execution.checkpointing.storage to filesystem.",
        )
    return kept
