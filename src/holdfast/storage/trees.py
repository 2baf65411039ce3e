"""Removing directories and what crashes leave in them, and linking a file, wherever it is."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from holdfast.errors import FileMissing
from holdfast.storage import disk, is_object_store
from holdfast.storage.interface import Storage
from holdfast.storage.local import LocalStorage
from holdfast.storage.local_tree import remove_if_dead
from holdfast.storage.names import is_unfinished


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
    for file in storage.list(path):
        storage.delete(file.path)
    _delete_directory(storage, path)


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


def delete_unfinished(storage: Storage) -> None:
    """Delete what dead processes were still writing, and directories without a file.

    Only on a local disk: elsewhere nobody can tell the dead from the living.
    """
    if isinstance(storage, LocalStorage):
        with disk.changing("delete", storage.root), suppress(FileNotFoundError):
            _sweep(storage.root)


def _sweep(directory: Path) -> None:
    for place in list(directory.iterdir()):
        if not place.is_dir() or place.is_symlink():
            if is_unfinished(place.name):
                place.unlink(missing_ok=True)
        elif is_unfinished(place.name):
            remove_if_dead(place)
        else:
            _sweep(place)
            with suppress(OSError):  # there is a file in it
                place.rmdir()


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
