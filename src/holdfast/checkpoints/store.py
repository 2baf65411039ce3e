"""Where the checkpoints of one job are kept: ``chk-<n>/_metadata`` and ``shared/``.

A checkpoint exists from the moment its ``_metadata`` does, and that is the last file written.
Files in ``shared/`` are used by several checkpoints; one is deleted when no checkpoint, complete
or in flight, uses it.
"""

from __future__ import annotations

import posixpath
import re
import threading
from collections.abc import Callable, Iterable, Mapping

from holdfast.checkpoints.metadata import METADATA, CheckpointMetadata, decode, encode
from holdfast.errors import AlreadyPublished, DestinationExists, FileMissing, HoldfastError
from holdfast.protocol.retention import SharedFiles
from holdfast.steps import step
from holdfast.storage import Storage, Tree, create_tree, open_storage
from holdfast.storage.trees import (
    delete_empty,
    delete_tree,
    delete_unfinished,
    delete_unsealed,
    list_all,
)

SHARED = "shared"
_CHECKPOINT = re.compile(r"chk-(\d+)/" + METADATA)


class GivenUp(HoldfastError):
    """Somebody writes for a checkpoint that has failed meanwhile."""

    code = "CHECKPOINT_GIVEN_UP"


class CheckpointStore:
    """All checkpoints below one directory. Made by the process that runs the job, and only by it:
    what no checkpoint uses is taken for the remains of a crash and deleted."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        self._storage = open_storage(self.location)
        self._lock = threading.Condition()
        self._going: set[str] = set()
        found = {info.path: info.size for info in list_all(self._storage)}
        listed = list(found)
        self._completed, self.damaged = _load(self._storage, _numbers(listed))
        """Checkpoints, and those whose ``_metadata`` cannot be read, with why."""
        self._shared = SharedFiles({n: shared_files(m) for n, m in self._completed.items()})
        self._present = {p: size for p, size in found.items() if p.startswith(f"{SHARED}/")}
        """Shared files with their sizes."""
        self._unclear = bool(self.damaged)
        """Whether some shared files are kept because nobody knows who uses them."""
        self._remove_remains(listed)

    def _remove_remains(self, listed: Iterable[str]) -> None:
        if not self.damaged:  # else nobody knows which shared files they use
            for path in self._shared.orphans(self._present):
                self._storage.delete(path)
                self._present.pop(path, None)
        unfinished = {p.split("/")[0] for p in listed if p.startswith("chk-")}
        for folder in unfinished - {f"chk-{n}" for n in (*self._completed, *self.damaged)}:
            delete_unsealed(self._storage, folder, METADATA)
        delete_unfinished(self._storage)

    @property
    def completed(self) -> Mapping[int, CheckpointMetadata]:
        """Every checkpoint that can be restored, oldest first."""
        with self._lock:
            return dict(sorted(self._completed.items()))

    @property
    def latest(self) -> CheckpointMetadata | None:
        """The newest checkpoint."""
        return max(self.completed.values(), key=lambda m: m.id, default=None)

    def path_of(self, checkpoint: int) -> str:
        """Where a checkpoint is, for people and for ``--from``."""
        return self._storage.locate(f"chk-{checkpoint}")

    def begin(self, checkpoint: int) -> CheckpointWriter:
        """Start writing a checkpoint. Nothing is read or written yet."""
        return CheckpointWriter(self, checkpoint)

    def look_again(self) -> None:
        """A shared file that somebody has deleted or cut short is not built upon, but replaced."""
        with self._lock:
            known = list(self._present)
        found = {info.path: info.size for info in self._storage.list(SHARED)}
        with self._lock:  # which is not held while a storage takes its time
            for path in known:
                if path in self._present and path not in found:
                    del self._present[path]
                elif path in self._present:
                    self._present[path] = found[path]

    def drop(self, checkpoint: int) -> None:
        """Delete a checkpoint and the shared files that only it used."""
        if self.forget(checkpoint):
            self.delete(checkpoint)

    def forget(self, checkpoint: int) -> bool:
        """Take a checkpoint out of those that there are; whether it was one. ``delete`` follows."""
        with self._lock:
            known = self._completed.pop(checkpoint, None) or self.damaged.pop(checkpoint, None)
            return known is not None

    def delete(self, checkpoint: int) -> None:
        """Delete a checkpoint that was forgotten, and the shared files that only it used."""
        delete_tree(self._storage, f"chk-{checkpoint}", METADATA)
        self._release(checkpoint)

    def share(self, checkpoint: int, name: str, size: int | None = None) -> bool:
        """Hold a shared file for a checkpoint; whether it is there already, and whole."""
        path = f"{SHARED}/{name}"
        with self._lock:
            self._shared.hold(checkpoint, [path])
            # One that is just being deleted for others must be gone before it is written anew.
            self._lock.wait_for(lambda: path not in self._going)
            there = self._present.get(path)
            return there is not None and size in (None, there)

    def write_shared(self, name: str, data: bytes) -> None:
        """Write a shared file that somebody holds."""
        path = f"{SHARED}/{name}"
        try:
            self._storage.publish(path, data)
        except AlreadyPublished:  # its name tells size and checksum: what is there is damaged
            self._storage.delete(path)
            self._storage.publish(path, data)
        with self._lock:
            self._present[path] = len(data)

    def _add(self, metadata: CheckpointMetadata) -> None:
        with self._lock:
            self._completed[metadata.id] = metadata

    def _release(self, checkpoint: int) -> None:
        with self._lock:
            unused = self._shared.release(checkpoint)
            if self.damaged:
                return  # one of them may use it
            if self._unclear:  # the last of them has gone
                unused |= self._shared.orphans(self._present)
                self._unclear = False
            for path in unused:
                self._present.pop(path, None)
            self._going |= unused
        try:
            for path in unused:
                with step("delete"):
                    self._storage.delete(path)
        finally:
            self._gone(unused)

    def _gone(self, paths: set[str]) -> None:
        with self._lock:
            self._going -= paths
            self._lock.notify_all()
            used = {folder for path in self._shared.used for folder in _folders(path)}
            for folder in sorted({f for path in paths for f in _folders(path)} - used)[::-1]:
                delete_empty(self._storage, folder)


class CheckpointWriter:
    """One checkpoint being written: it appears when ``complete`` returns, or leaves nothing."""

    def __init__(self, store: CheckpointStore, checkpoint: int) -> None:
        self._store = store
        self.checkpoint = checkpoint
        self._lock = threading.Lock()
        self._tree: Tree | None = None
        self._turns: dict[str, threading.Lock] = {}
        self._there: set[str] = set()
        """Own files that are in the tree."""
        self._looking = threading.Lock()
        self._has_looked = False
        self._given_up = False
        self._doubtful = False

    def give_up(self) -> None:
        """Refuse further files; ``abort`` follows when those who write have noticed."""
        self._given_up = True

    def _check(self) -> None:
        if self._given_up:
            raise GivenUp("the checkpoint has been given up", checkpoint_id=self.checkpoint)

    def share(self, name: str, size: int | None = None) -> bool:
        """Use a shared file; whether it is there already, and whole. If not, write it."""
        self._check()
        with self._looking:
            if not self._has_looked:
                self._store.look_again()
                self._has_looked = True
        return self._store.share(self.checkpoint, name, size)

    def write_shared(self, name: str, data: bytes) -> str:
        """Write a shared file; returns its place."""
        self._check()
        self._store.write_shared(name, data)
        return f"{SHARED}/{name}"

    def write_own(self, path: str, data: bytes) -> str:
        """Write a file that only this checkpoint uses; returns its place."""
        return self._once(path, lambda tree: tree.write(path, data))

    def copy_own(self, source: Storage, name: str, path: str) -> str:
        """Copy a file that only this checkpoint uses, however large; returns its place."""
        return self._once(path, lambda tree: tree.copy(source, name, path))

    def link_own(self, source: Storage, name: str, path: str) -> str:
        """Give a file a second name in here; ``StorageError`` where that is impossible."""
        return self._once(path, lambda tree: tree.link(source, name, path))

    def _once(self, path: str, put: Callable[[Tree], object]) -> str:
        """Two regions may keep the same segment. The second waits for the first, and puts the file
        there itself if the first could not."""
        self._check()
        with self._lock:
            turn = self._turns.setdefault(path, threading.Lock())
        with turn:
            if path not in self._there:
                put(self._own_tree())
                self._there.add(path)
        return f"chk-{self.checkpoint}/{path}"

    def complete(self, metadata: CheckpointMetadata) -> None:
        """Make the checkpoint real."""
        tree = self._own_tree()
        with step("metadata"):
            tree.write(METADATA, encode(metadata))
        with step("store"):
            self._publish(tree)
        self._store._add(metadata)

    def _publish(self, tree: Tree) -> None:
        try:
            tree.publish()
        except DestinationExists:
            raise  # it is somebody else's
        except BaseException:
            self._doubtful = True  # it may be there all the same
            raise

    def abort(self) -> None:
        """Delete everything that was written."""
        with self._lock:
            if self._tree is not None:
                self._tree.discard()
            if self._doubtful:
                delete_tree(self._store._storage, f"chk-{self.checkpoint}", METADATA)
        self._store._release(self.checkpoint)

    def _own_tree(self) -> Tree:
        with self._lock:
            if self._tree is None:
                self._tree = create_tree(
                    f"{self._store.location}/chk-{self.checkpoint}", seal=METADATA
                )
            return self._tree


def shared_files(metadata: CheckpointMetadata) -> set[str]:
    """The shared files that a checkpoint uses."""
    return {file.place for file in metadata.files if file.place is not None and file.shared}


def read_completed(location: str) -> dict[int, CheckpointMetadata]:
    """Every completed checkpoint of a job, oldest first. Nothing is changed, unlike by a store."""
    storage = open_storage(location)
    loaded, damaged = _load(storage, _numbers(info.path for info in storage.list()))
    for error in damaged.values():
        raise error
    return loaded


def read_checkpoint(location: str) -> tuple[CheckpointMetadata, Storage]:
    """A checkpoint by its path (``…/chk-7`` or ``…/chk-7/_metadata``), and the files around it."""
    path = location.rstrip("/").removesuffix(f"/{METADATA}")
    root, _, name = path.rpartition("/")
    storage = open_storage(root or ".")
    try:
        data = storage.read(f"{name}/{METADATA}")
    except FileMissing as cause:
        raise FileMissing(
            "there is no checkpoint here: it has no _metadata",
            hint="Give the directory of a completed checkpoint, such as …/chk-7; "
            "`holdfast checkpoints list DIR` lists those below a directory.",
            path=f"{path}/{METADATA}",
        ) from cause
    return decode(data, f"{path}/{METADATA}"), storage


def _folders(path: str) -> list[str]:
    """The directories between ``shared`` and a file in it."""
    parts = posixpath.dirname(path).split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]


def _numbers(listed: Iterable[str]) -> list[int]:
    found = (_CHECKPOINT.fullmatch(path) for path in listed)
    return sorted(int(match[1]) for match in found if match)


def _load(
    storage: Storage, numbers: Iterable[int]
) -> tuple[dict[int, CheckpointMetadata], dict[int, HoldfastError]]:
    """Checkpoints that can be read, and why others cannot."""
    loaded: dict[int, CheckpointMetadata] = {}
    damaged: dict[int, HoldfastError] = {}
    for number in numbers:
        path = f"chk-{number}/{METADATA}"
        try:
            loaded[number] = decode(storage.read(path), storage.locate(path))
        except HoldfastError as error:
            damaged[number] = type(error)(
                f"checkpoint {number} cannot be read: {error.message}",
                hint="Its files may be shared with others, so nothing is deleted. Move the "
                "directory away, or restore its _metadata from a backup.",
                path=storage.locate(path),
            )
    return loaded, damaged
