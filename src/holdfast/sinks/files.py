"""Parquet files that appear exactly once, when their checkpoint completes.

``pre_commit`` puts the epoch's files under ``<path>/_holdfast/<job>/<sink>/<checkpoint>/``, which
readers of Parquet directories skip; ``commit`` moves them up by renaming. On a local disk they are
hard links to the segments that the batches have written anyway; elsewhere executors write them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import UsageError
from holdfast.sinks.interface import Epoch, Handle
from holdfast.storage.moving import Folder, open_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_STAGING = "_holdfast"


@dataclass(frozen=True, slots=True)
class FilesSink:
    """A directory of Parquet files."""

    keeps_rows: ClassVar[bool] = False

    path: str

    def check(self, spark: SparkSession, schema: StructType) -> None:
        """Parquet takes every schema that a query can have."""

    def pre_commit(self, epoch: Epoch) -> Handle:
        """Put the files where ``commit`` can rename them. What an earlier try left is replaced."""
        folder = open_folder(self.path)
        staging = f"{_STAGING}/{epoch.job_id}/{epoch.sink}/{epoch.checkpoint}"
        folder.remove(staging)
        origins = [file for segment in epoch.segments for file in segment.files]
        if not origins:
            staged = []
        elif folder.can_link(origins):
            staged = _link(folder, staging, epoch)
        else:
            epoch.rows().write.parquet(folder.locate(staging))
            staged = [n for n in folder.files(staging) if n.endswith(".parquet")]
        prefix = f"{epoch.sink}-{epoch.attempt}-{epoch.checkpoint:08d}"
        names = [[name, f"{prefix}-{at:05d}.parquet"] for at, name in enumerate(staged)]
        return {"checkpoint": epoch.checkpoint, "staging": staging, "files": names}

    def commit(self, epoch: Epoch, handle: Handle) -> None:  # noqa: ARG002
        """Let the files appear."""
        folder = open_folder(self.path)
        for staged, name in handle["files"]:
            folder.rename(f"{handle['staging']}/{staged}", name)
        folder.sync("")
        folder.remove(handle["staging"])

    def recover_and_commit(self, epoch: Epoch, handle: Handle) -> None:
        """Commit, where some or all files may have appeared already.

        The staging directory goes last, so without it everything has appeared, and may have been
        taken away since by those it was for.
        """
        parent, _, name = handle["staging"].rpartition("/")
        if name in open_folder(self.path).folders(parent):
            self.commit(epoch, handle)

    def abort(self, handle: Handle) -> None:
        """Delete the files that have not appeared."""
        open_folder(self.path).remove(handle["staging"])

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        """Every staged epoch."""
        base = f"{_STAGING}/{job_id}/{sink}"
        return [
            {"checkpoint": int(name), "staging": f"{base}/{name}", "files": []}
            for name in open_folder(self.path).folders(base)
            if name.isdigit()
        ]

    def describe(self, handle: Handle) -> list[str]:
        """Where the files are."""
        return [open_folder(self.path).locate(handle["staging"])]


def _link(folder: Folder, staging: str, epoch: Epoch) -> list[str]:
    names = []
    for segment in epoch.segments:
        for part, file in enumerate(segment.files):
            names.append(f"{segment.batch:08d}-{part:05d}.parquet")
            folder.link(file, f"{staging}/{names[-1]}")
    folder.sync(staging)
    return names


def files(path: str | os.PathLike[str], format: str = "parquet") -> FilesSink:
    """Parquet files below ``path``, exactly once."""
    if format != "parquet":
        raise UsageError(
            f"the files sink writes parquet, not {format!r}",
            hint="Use sinks.foreach_batch to write other formats at least once.",
        )
    return FilesSink(os.fspath(path))
