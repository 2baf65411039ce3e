"""Staging an epoch of the files sink: its files, complete, and a plan of where they will appear."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import FileMissing, UnknownFormat
from holdfast.sinks.files.formats import Format
from holdfast.sinks.files.manifest import CommittedEpoch, from_item, to_item
from holdfast.sinks.interface import Epoch
from holdfast.storage import Storage, disk
from holdfast.storage.local import local_path
from holdfast.storage.moving import Folder
from holdfast.storage.names import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLAN = "plan.json"
_ROWS = "rows"
_JOB_DIGITS = 12
_AS_SPARK = {
    # A task that finished twice must not leave two files: the job's own commit picks one.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a commit does: each staged file gets its name, then the manifest gets the epoch."""

    staged: tuple[str, ...]
    """Below the staging directory, in the order of the epoch's files."""
    epoch: CommittedEpoch

    def moves(self) -> Iterator[tuple[str, str]]:
        """From where in the staging directory, to where in the target."""
        for origin, (name, _) in zip(self.staged, self.epoch.files, strict=True):
            yield origin, name

    @property
    def directories(self) -> list[str]:
        """Into which files come, below the target, which is not among them."""
        return sorted({name.rpartition("/")[0] for name, _ in self.epoch.files} - {""})


def write_plan(storage: Storage, staging: str, plan: Plan) -> None:
    """The last thing to be staged: without a plan there is nothing to commit."""
    body = {"version": 1, "staged": plan.staged, "epoch": to_item(plan.epoch)}
    storage.publish(f"{staging}/{_PLAN}", json.dumps(body).encode())


def read_plan(storage: Storage, staging: str) -> Plan | None:
    """The plan, if the staging is complete and still there."""
    path = f"{staging}/{_PLAN}"
    try:
        document = json.loads(storage.read(path))
    except FileMissing:
        return None
    if (version := document["version"]) != 1:
        raise UnknownFormat(f"a plan of version {version} is not known", path=storage.locate(path))
    return Plan(tuple(document["staged"]), from_item(document["epoch"]))


def delete_plan(storage: Storage, staging: str) -> None:
    """From now on there is nothing to commit."""
    storage.delete(f"{staging}/{_PLAN}")


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that is ready; ``path`` is below the staging directory."""

    path: str
    folder: str
    """Where it belongs below the target: the directories of its partition."""
    suffix: str
    size: int


def plan_of(epoch: Epoch, files: Sequence[Staged], rows: int) -> Plan:
    """Names are used once: no other job, sink, attempt or checkpoint makes the same."""
    job = epoch.job_id[:_JOB_DIGITS]
    stem = f"{epoch.sink}-{job}-{epoch.attempt}-{epoch.checkpoint:08d}"
    names = [f"{file.folder}{stem}-{at:05d}{file.suffix}" for at, file in enumerate(files)]
    committed = CommittedEpoch(
        job_id=epoch.job_id,
        sink=epoch.sink,
        checkpoint=epoch.checkpoint,
        rows=rows,
        staged=round(time.time(), 3),
        files=tuple(zip(names, (file.size for file in files), strict=True)),
    )
    return Plan(tuple(file.path for file in files), committed)


# Counting


def rows_by_file(files: Sequence[str]) -> dict[str, int] | None:
    """How many rows each Parquet file has; ``None`` if their footers are far away."""
    if any(scheme_of(file) not in (None, "file") for file in files):
        return None
    return {file: _rows_in(file) for file in files}


def _rows_in(file: str) -> int:
    from pyarrow import parquet

    with disk.reading(file):
        return int(parquet.read_metadata(local_path(file)).num_rows)


# Linking


def link(folder: Folder, staging: str, origins: Sequence[str]) -> list[Staged]:
    """Give Parquet files of the job's working directory a second name."""
    linked = []
    for at, origin in enumerate(origins):
        to = f"{staging}/{_ROWS}/{at:05d}.parquet"
        folder.link(origin, to)
        linked.append(Staged(f"{_ROWS}/{at:05d}.parquet", "", ".parquet", _size(origin)))
    folder.sync(f"{staging}/{_ROWS}")
    return linked


def _size(file: str) -> int:
    return local_path(file).stat().st_size


# Writing


@dataclass(frozen=True, slots=True)
class Layout:
    """How executors write an epoch."""

    format: Format
    options: Mapping[str, str]
    partition_by: tuple[str, ...]
    roll_size: int | None

    def write(
        self, folder: Folder, staging: str, epoch: Epoch, rows: int, newest: CommittedEpoch | None
    ) -> list[Staged]:
        """Let Spark write the rows; returns when the files would survive a power cut."""
        frame, limit = self._arranged(epoch, rows, self._bytes_per_row(epoch, rows, newest))
        target = f"{staging}/{_ROWS}"
        writer = frame.write.format(self.format.name).options(
            **{**_AS_SPARK, **self.options, **limit}
        )
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        writer.mode("errorifexists").save(folder.locate(target))
        written = [
            _staged(path, size) for path, size in folder.files_below(target) if _is_data(path)
        ]
        _make_durable(folder, target, written)
        return written

    def _bytes_per_row(self, epoch: Epoch, rows: int, newest: CommittedEpoch | None) -> float:
        """As the last epoch has turned out; for the first one it is a guess."""
        if newest is not None and newest.rows:
            return max(1.0, newest.size / newest.rows)
        staged = sum(segment.size for segment in epoch.segments)
        return max(1.0, staged * self.format.growth / rows)

    def _arranged(
        self, epoch: Epoch, rows: int, bytes_per_row: float
    ) -> tuple[DataFrame, dict[str, str]]:
        """The rows in as many tasks as there should be files, and a limit for each file."""
        frame = epoch.rows()
        if self.roll_size is None:
            return frame, {}
        wanted = max(1, round(rows * bytes_per_row / self.roll_size))
        if self.partition_by:
            limit = max(1, int(self.roll_size / bytes_per_row))
            columns = [_column(frame, name) for name in self.partition_by]
            return frame.repartition(wanted, *columns), {"maxrecordsperfile": str(limit)}
        if wanted <= frame.rdd.getNumPartitions():
            return frame.coalesce(wanted), {}
        return frame.repartition(wanted), {}


def _column(frame: Any, name: str) -> Any:
    escaped = name.replace("`", "``")
    return frame[f"`{escaped}`"]


def _is_data(path: str) -> bool:
    return not path.rpartition("/")[2].startswith((".", "_"))


def _staged(path: str, size: int) -> Staged:
    folder, slash, name = path.rpartition("/")
    dot = name.index(".")  # part-00000-…-c000.json.gz: a reader needs all that is behind the dot
    return Staged(f"{_ROWS}/{path}", f"{folder}{slash}", name[dot:], size)


def _make_durable(folder: Folder, target: str, written: Sequence[Staged]) -> None:
    for file in written:
        folder.sync(f"{target}/{file.path.removeprefix(f'{_ROWS}/')}")
    for directory in {above for file in written for above in _directories(file.folder)}:
        folder.sync(f"{target}/{directory}")
    folder.sync(target)


def _directories(folder: str) -> Iterator[str]:
    """``a=1`` and ``a=1/b=2`` of ``a=1/b=2/``: the name of each is in the one above it."""
    parts = folder.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])
