"""Files that appear exactly once, when their checkpoint completes.

``pre_commit`` puts the epoch's files under ``<path>/_holdfast/<job>/<sink>/<checkpoint>/``, which
readers of directories skip, and beside them a plan of where they will appear. ``commit``

1. renames each file, in one step, to a name that is never used twice;
2. adds the epoch to the manifest (see ``manifest.py``): from now on it is whole;
3. removes the staging directory, the plan with it.

A commit that died begins again at 1 as long as there is a plan, at 3 if the manifest has the epoch.
Parquet without options is not written anew on a local disk: the files are hard links to the
segments that the batches have written anyway. Everything else is written by executors.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import UsageError
from holdfast.settings.values import read_size
from holdfast.sinks.files import formats as file_formats
from holdfast.sinks.files import staging as file_staging
from holdfast.sinks.files.formats import Format
from holdfast.sinks.files.manifest import CommittedEpoch, Manifest, read_manifest
from holdfast.sinks.files.staging import Layout, Plan
from holdfast.sinks.interface import Epoch, Handle
from holdfast.storage import Storage, open_storage
from holdfast.storage.moving import Folder, open_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_STAGING = "_holdfast"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FilesSink:
    """A directory of files."""

    keeps_rows: ClassVar[bool] = False

    path: str
    format: Format = field(default_factory=lambda: file_formats.format_named("parquet"))
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    roll_size: int | None = None

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002
        """Every column must have a type that can be written and read again."""
        file_formats.refuse_unfit(self.format, self.partition_by, self.options, schema)

    def pre_commit(self, epoch: Epoch) -> Handle:
        """Put the files where ``commit`` can rename them. What an earlier try left is removed.

        Not what has a higher number: it is of a runner that has replaced this one.
        """
        folder, storage = self._open()
        base = f"{_STAGING}/{epoch.job_id}/{epoch.sink}"
        staging = f"{base}/{epoch.checkpoint}"
        for number in _numbers(folder, base):
            if number <= epoch.checkpoint:
                folder.remove(f"{base}/{number}")
        plan = self._stage(folder, storage, staging, epoch)
        if plan.staged:
            file_staging.write_plan(storage, staging, plan)
        return _handle(epoch.checkpoint, staging, plan)

    def _stage(self, folder: Folder, storage: Storage, staging: str, epoch: Epoch) -> Plan:
        counted = file_staging.rows_by_file(epoch.files)
        rows = epoch.rows().count() if counted is None else sum(counted.values())
        if rows == 0:
            return file_staging.plan_of(epoch, [], 0)
        folder.make_directory(staging)
        if counted is not None and self._can_link(folder, epoch):
            staged = file_staging.link(folder, staging, [f for f, n in counted.items() if n])
        else:
            newest = self._newest(storage, epoch) if self.roll_size is not None else None
            layout = Layout(self.format, self.options, self.partition_by, self.roll_size)
            staged = layout.write(folder, staging, epoch, rows, newest)
        return file_staging.plan_of(epoch, staged, rows)

    def _can_link(self, folder: Folder, epoch: Epoch) -> bool:
        as_it_is = not self.options and not self.partition_by and self.roll_size is None
        return self.format.name == "parquet" and as_it_is and folder.can_link(epoch.files)

    def _newest(self, storage: Storage, epoch: Epoch) -> CommittedEpoch | None:
        return Manifest(storage, epoch.job_id, epoch.sink).newest()

    def commit(self, epoch: Epoch, handle: Handle) -> None:  # noqa: ARG002
        """Let the files appear."""
        folder, storage = self._open()
        plan = file_staging.read_plan(storage, handle["staging"])
        manifest = Manifest(storage, *_owner(handle))
        known = manifest.has(handle["checkpoint"])
        if plan is not None and not known:
            _move(folder, handle["staging"], plan)
            manifest.add(plan.epoch)
        elif handle["files"] and not known:
            _log.error(
                "%s staged files of checkpoint %s are gone, and it is not in the manifest: "
                "has somebody removed them? [path=%s]",
                handle["files"],
                handle["checkpoint"],
                folder.locate(handle["staging"]),
            )
        folder.remove(handle["staging"])
        manifest.gather(folder.exists)

    def recover_and_commit(self, epoch: Epoch, handle: Handle) -> None:
        """Commit, where some or all files may have appeared already."""
        Manifest(self._open()[1], *_owner(handle)).delete_unfinished()
        self.commit(epoch, handle)

    def abort(self, handle: Handle) -> None:
        """Delete the files that have not appeared; the plan first, so that no half is committed."""
        folder, storage = self._open()
        file_staging.delete_plan(storage, handle["staging"])
        folder.remove(handle["staging"])

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        """Every staged epoch."""
        folder, storage = self._open()
        base = f"{_STAGING}/{job_id}/{sink}"
        return [
            _handle(number, f"{base}/{number}", file_staging.read_plan(storage, f"{base}/{number}"))
            for number in _numbers(folder, base)
        ]

    def describe(self, handle: Handle) -> list[str]:
        """How many files there are, and where."""
        where = open_folder(self.path).locate(handle["staging"])
        return [f"{handle['files']} files in {where}"]

    def _open(self) -> tuple[Folder, Storage]:
        return open_folder(self.path), open_storage(self.path)


def _numbers(folder: Folder, base: str) -> list[int]:
    """Checkpoints that have something staged."""
    return sorted(int(name) for name in folder.folders(base) if name.isdigit())


def _handle(checkpoint: int, staging: str, plan: Plan | None) -> Handle:
    files = len(plan.staged) if plan is not None else 0
    return {"checkpoint": checkpoint, "staging": staging, "files": files}


def _owner(handle: Handle) -> tuple[str, str]:
    _, job_id, sink, _ = handle["staging"].split("/")
    return job_id, sink


def _move(folder: Folder, staging: str, plan: Plan) -> None:
    for directory in plan.directories:
        folder.make_directory(directory)
    for staged, name in plan.moves():
        if not folder.rename(f"{staging}/{staged}", name) and not folder.exists(name):
            # Readers may take files away as soon as they appear, also before a commit that died
            # is repeated.
            _log.warning("%s has appeared before and is gone", folder.locate(name))
    for directory in ["", *plan.directories]:
        folder.sync(directory)


def files(
    path: str | os.PathLike[str],
    format: str = "parquet",
    *,
    partition_by: str | Sequence[str] = (),
    roll_size: str | int | None = None,
    **options: object,
) -> FilesSink:
    """Parquet, JSON lines or CSV files below ``path``, exactly once.

    A reader that lists the directory finds only files of completed checkpoints, each whole, but may
    find some files of an epoch a moment before the others; ``committed_files(path)`` gives those of
    whole epochs only. An epoch without rows leaves no file.

    ``partition_by`` names columns that become directories (``day=2026-01-31/``), as Spark writes
    them: null and the empty string both become ``__HIVE_DEFAULT_PARTITION__``.

    ``roll_size`` ("128mb") is about how large files become. An epoch gets as many as its size says,
    at least one (with ``partition_by``: one for each partition). The size is worked out from
    that of the epoch before, and guessed for the first; files differ by what their batches differ.

    ``options`` are those of Spark's writer: ``compression``, ``header``, ``sep``, … Unlike Spark's
    own, text formats keep microseconds, and CSV keeps blanks at the ends of values. To tell an
    empty string in CSV from null, read it with a ``nullValue`` that is no value.
    """
    form = file_formats.format_named(format)
    checked = file_formats.writer_options(form, options)
    if roll_size is not None and "maxrecordsperfile" in checked:
        raise UsageError("roll_size and maxRecordsPerFile do not go together", hint="Choose one.")
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    return FilesSink(os.fspath(path), form, checked, columns, _bytes(roll_size))


def _bytes(roll_size: str | int | None) -> int | None:
    if roll_size is None:
        return None
    try:
        size = read_size(str(roll_size))
    except ValueError as error:
        raise UsageError(f"roll_size={roll_size!r} {error}", hint="Write '128mb'.") from error
    if size == 0:
        raise UsageError("roll_size must be more than nothing", hint="Write '128mb'.")
    return size


def committed_epochs(path: str | os.PathLike[str]) -> list[CommittedEpoch]:
    """What the manifest of a files sink's directory says, whoever wrote there; no Spark needed
    for local disks.

    The epochs of each sink are in order. Remember epochs or files, not how many there were: of two
    sinks, one may add an epoch that is older than the other's last. Files may have been deleted
    since by those they are for; epochs with no file left are forgotten in the end.
    """
    return read_manifest(open_storage(os.fspath(path)))


def committed_files(path: str | os.PathLike[str]) -> list[str]:
    """The files of whole epochs, in order, but for those that were deleted since.

    ``spark.read.option("basePath", path).parquet(*committed_files(path))`` reads a partitioned
    directory without ever seeing a part of an epoch.
    """
    folder = open_folder(os.fspath(path))
    names = [name for epoch in committed_epochs(path) for name, _ in epoch.files]
    there = {name for name, _ in folder.files_below("")} if names else set()
    return [folder.locate(name) for name in names if name in there]
