"""Where files are: one interface over local disks, object stores and Hadoop's file systems.

``open_storage`` and ``create_tree`` are the one place that picks an implementation.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.storage.interface import FileInfo, Storage, Tree
from holdfast.storage.local import LocalStorage
from holdfast.storage.local_tree import LocalTree
from holdfast.storage.names import scheme_of

__all__ = [
    "FileInfo",
    "Storage",
    "Tree",
    "create_tree",
    "is_object_store",
    "needs_spark",
    "open_storage",
]

_OBJECT_STORES = {"s3", "s3a", "s3n", "gs", "az", "abfs", "abfss"}


def is_object_store(location: str | Path) -> bool:
    """Whether the location is in an object store, which has files but no directories."""
    return scheme_of(os.fspath(location)) in _OBJECT_STORES


def needs_spark(location: str | Path) -> bool:
    """Whether the location can be read only once Spark runs, as HDFS is."""
    return scheme_of(os.fspath(location)) not in (None, "file") and not is_object_store(location)


def open_storage(location: str | Path) -> Storage:
    """The files below a path or URI. Nothing is created, and nothing need be there yet."""
    uri = os.fspath(location)
    scheme = scheme_of(uri)
    if scheme in (None, "file"):
        return LocalStorage(uri)
    if scheme in _OBJECT_STORES:
        from holdfast.storage.objects import ObjectStorage

        return ObjectStorage(uri)
    from holdfast.storage.hadoop import HadoopStorage

    return HadoopStorage(uri)


def create_tree(location: str | Path, seal: str) -> Tree:
    """Begin a directory that is not there until it is published.

    ``seal`` is the file that says the tree is whole. It must be in the tree before ``publish``.
    """
    uri = os.fspath(location)
    scheme = scheme_of(uri)
    if scheme in (None, "file"):
        return LocalTree(uri, seal)
    if scheme in _OBJECT_STORES:
        from holdfast.storage.objects_tree import ObjectTree

        return ObjectTree(uri, seal)
    from holdfast.storage.hadoop_tree import HadoopTree

    return HadoopTree(uri, seal)
