"""Removing directories and what crashes leave in them, and linking a file, wherever it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.errors import FileMissing
from holdfast.storage import disk, is_object_store
from holdfast.storage.interface import FileInfo, Storage
from holdfast.storage.local import LocalStorage
from holdfast.storage.local_tree import remove_if_dead
from holdfast.storage.names import CLAIM, is_unfinished


def delete_tree(storage: Storage, path: str, seal: str | None = None) -> None:
    """Delete everything below ``path``; the ``seal`` goes first, so that no half is ever taken
    for the whole. What is not there is not missed."""
    if seal is not None:
        storage.delete(f"{path}/{seal}")
    if isinstance(storage, LocalStorage):
        place = Path(storage.locate(path))
        with disk.changing("delete", place), suppress(FileNotFoundError):
            shutil.rmtree(place)
        return
    for file in list_all(storage, path):
        storage.delete(file.path)
    _delete_directory(storage, path)


def delete_unsealed(storage: Storage, path: str, seal: str) -> None:
    """Delete a directory that its writer did not finish; unless it does so at this very moment.

    In an object store the claim goes first. A writer looks for it when the seal is written, we look
    for the seal when the claim is gone: one of the two notices.
    """
    if is_object_store(storage.uri):
        storage.delete(f"{path}/{CLAIM}")
    if all(file.path != f"{path}/{seal}" for file in storage.list(path)):
        delete_tree(storage, path)


def list_all(storage: Storage, path: str = "") -> Sequence[FileInfo]:
    """Every file below ``path``; of directories that are built in place also what is unfinished."""
    if is_object_store(storage.uri):
        from holdfast.storage.objects import ObjectStorage

        if isinstance(storage, ObjectStorage):
            return storage.list_all(path)
    return storage.list(path)


def _delete_directory(storage: Storage, path: str) -> None:
    from holdfast.storage.hadoop import HadoopStorage

    if isinstance(storage, HadoopStorage):
        storage.files.delete(storage.locate(path))


def delete_empty(storage: Storage, path: str) -> None:
    """Delete a directory in which no file is left; object stores have none."""
    if isinstance(storage, LocalStorage):
        with suppress(OSError):  # not there, or a file is in it after all
            Path(storage.locate(path)).rmdir()
    elif not is_object_store(storage.uri) and not storage.list(path):
        _delete_directory(storage, path)


def entries(storage: Storage, path: str) -> set[str]:
    """Names of what lies right below ``path``, also of directories without a file."""
    from holdfast.storage.hadoop import HadoopStorage

    if isinstance(storage, LocalStorage):
        with suppress(FileNotFoundError):
            return set(os.listdir(storage.locate(path)))  # noqa: PTH208  names, not paths
        return set()
    if isinstance(storage, HadoopStorage):
        found = storage.files.entries_of(storage.locate(path))
        return {entry.path.rstrip("/").rpartition("/")[2] for entry in found}
    return {file.path.removeprefix(f"{path}/").split("/")[0] for file in list_all(storage, path)}


def delete_unfinished(storage: Storage) -> None:
    """Delete what dead processes were still writing, and local directories without a file.

    Only for those who are alone here: on HDFS and in object stores nobody can tell the dead from
    the living. A tree whose beginnings were deleted is not published.
    """
    if isinstance(storage, LocalStorage):
        with disk.changing("delete", storage.root), suppress(FileNotFoundError):
            _sweep(storage.root)
        return
    _delete_unfinished_entries(storage)
    _delete_unfinished_files(storage)


def delete_unfinished_entries(storage: Storage) -> None:
    """The same, but only what lies right here; directories that are finished may be in use."""
    if isinstance(storage, LocalStorage):
        with disk.changing("delete", storage.root), suppress(FileNotFoundError):
            for place in list(storage.root.iterdir()):
                if is_unfinished(place.name):
                    _remove_unfinished(place)
        return
    _delete_unfinished_entries(storage)


def _delete_unfinished_entries(storage: Storage) -> None:
    from holdfast.storage.hadoop import HadoopStorage

    if isinstance(storage, HadoopStorage):
        for entry in list(storage.files.entries_of(storage.uri)):
            if is_unfinished(entry.path.rstrip("/").rpartition("/")[2]):
                storage.files.delete(entry.path)


def _delete_unfinished_files(storage: Storage) -> None:
    from holdfast.storage.hadoop import HadoopStorage

    if isinstance(storage, HadoopStorage):
        found = [file.path for file in storage.files.files_below(storage.uri)]
        for path in found:
            if is_unfinished(path.rpartition("/")[2]):
                storage.files.delete(path)
        return
    for file in list_all(storage):
        if is_unfinished(file.path.rpartition("/")[2]):
            storage.delete(file.path)


def _sweep(directory: Path) -> None:
    for place in list(directory.iterdir()):
        if is_unfinished(place.name):
            _remove_unfinished(place)
        elif place.is_dir() and not place.is_symlink():
            _sweep(place)
            with suppress(OSError):  # there is a file in it
                place.rmdir()


def _remove_unfinished(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        remove_if_dead(place)
    else:
        place.unlink(missing_ok=True)


def can_link(storage: Storage) -> bool:
    """Whether files can be kept alive by hard links."""
    return isinstance(storage, LocalStorage)


def link(storage: Storage, path: str, to: str) -> None:
    """Give a file of a local storage a second name in the same storage's file system."""
    target = Path(to)
    try:
        os.link(storage.locate(path), target)
    except FileNotFoundError:
        with disk.changing("create the directory of", target):
            target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(storage.locate(path), target)
        except FileNotFoundError as error:
            raise FileMissing("there is no such file", path=storage.locate(path)) from error
