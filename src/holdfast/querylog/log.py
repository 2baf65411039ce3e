"""One query log, opened: what files it has, and what the small ones say.

The files are listed once. A query that goes on running may delete some of them later; whoever
reads one that has vanished gets ``MissingFile``, which says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cached_property
from os import PathLike, fspath
from typing import TypeVar

from holdfast.errors import FileMissing, MissingFile, NotAQueryLog, QueryLogError
from holdfast.querylog.batches import (
    METADATA,
    Commit,
    Offsets,
    commit_path,
    decode_commit,
    decode_metadata,
    decode_offsets,
    offsets_path,
)
from holdfast.querylog.changelog import StateVersion, read_lineage
from holdfast.querylog.operators import Operator, decode_operator
from holdfast.querylog.rocksdb import Snapshot, decode_snapshot
from holdfast.querylog.schemas import StateSchema, decode_schema
from holdfast.querylog.sourcelog import log_offset
from holdfast.querylog.versions import changelog_name, zip_name
from holdfast.storage import FileInfo, Storage, open_storage

T = TypeVar("T")


def open_log(location: str | PathLike[str]) -> QueryLog:
    """Open a query log; ``NotAQueryLog`` if there is none at ``location``."""
    log = QueryLog(open_storage(fspath(location)))
    if METADATA not in log.files:
        raise _not_a_log(log)
    return log


def _not_a_log(log: QueryLog) -> NotAQueryLog:
    uri = log.storage.uri
    if not log.files:
        return NotAQueryLog(
            "there is no query log: the directory is empty or does not exist",
            hint="Give the checkpointLocation of a Structured Streaming query.",
            path=uri,
        )
    if log.batches("offsets") or log.batches("commits"):
        return NotAQueryLog(
            "the query log has lost its metadata file (the query's id)",
            hint="Spark refuses to start from it too. Restore the file from a backup: "
            'one line, {"id":"<query id>"}; the id is in the query\'s progress reports.',
            path=log.storage.locate(METADATA),
        )
    inside = sorted(p.removesuffix("/metadata") for p in log.files if p.endswith("/metadata"))
    logs = [d for d in inside if f"{d}/offsets" in log.folders]
    hint = (
        f"These below it look like one: {', '.join(logs[:5])}."
        if logs
        else "Give the checkpointLocation of a Structured Streaming query."
    )
    return NotAQueryLog("the directory is not a query log", hint=hint, path=uri)


class QueryLog:
    """Reads the small files of a query log, each once."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.files: dict[str, FileInfo] = {info.path: info for info in storage.list()}
        self.folders: dict[str, set[str]] = defaultdict(set)
        """Names of the files directly in each folder."""
        for path in self.files:
            folder, _, name = path.rpartition("/")
            self.folders[folder].add(name)
        self._read: dict[str, object] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._lineages: dict[tuple[str, StateVersion], tuple[StateVersion, ...]] = {}

    @cached_property
    def query_id(self) -> str:
        """The id that the query keeps over restarts."""
        return self._once(METADATA, decode_metadata)

    def names(self, folder: str) -> Collection[str]:
        """Names of the files directly in ``folder``, Hadoop's hidden ones left out."""
        if folder not in self._names:
            found = self.folders.get(folder, ())
            self._names[folder] = frozenset(n for n in found if not n.startswith("."))
        return self._names[folder]

    def batches(self, folder: str) -> tuple[int, ...]:
        """The batches in ``offsets`` or ``commits``."""
        return tuple(sorted(int(n) for n in self.names(folder) if n.isdigit()))

    @cached_property
    def committed(self) -> tuple[int, ...]:
        """Batches that are done."""
        return self.batches("commits")

    @cached_property
    def unfinished(self) -> tuple[int, ...]:
        """Batches that were planned and not done: Spark runs them again with the same offsets."""
        newest = self.committed[-1] if self.committed else -1
        return tuple(b for b in self.batches("offsets") if b > newest)

    def offsets(self, batch: int) -> Offsets:
        """``offsets/<batch>``."""
        return self._once(offsets_path(batch), decode_offsets)

    @cached_property
    def file_sources(self) -> frozenset[str]:
        """Sources that have read files, as the newest readable offsets tell."""
        for batch in reversed(self.batches("offsets")):
            with suppress(QueryLogError):
                sources = self.offsets(batch).sources
                return frozenset(s for s, at in sources.items() if log_offset(at) is not None)
        return frozenset()

    def commit(self, batch: int) -> Commit:
        """``commits/<batch>``."""
        return self._once(commit_path(batch), decode_commit)

    @cached_property
    def operator_ids(self) -> tuple[int, ...]:
        """Numbers of the stateful operators."""
        parts = (f.split("/", 2) for f in self.folders if f.startswith("state/"))
        return tuple(sorted({int(p[1]) for p in parts if p[1].isdigit()}))

    def operator_path(self, operator: int, batch: int) -> str:
        """The newest description of the operator that is not younger than ``batch``."""
        root = f"state/{operator}/_metadata"
        written = [int(n) for n in self.names(f"{root}/v2") if n.isdigit() and int(n) <= batch]
        # Operators described in version 2 keep their schemas in a folder of their own.
        schemas = f"state/{operator}/_stateSchema/"
        if written or any(folder.startswith(schemas) for folder in self.folders):
            return f"{root}/v2/{max(written, default=batch)}"
        return f"{root}/metadata"

    def operator(self, operator: int, batch: int) -> Operator:
        """What Spark says about a stateful operator."""
        return self._once(self.operator_path(operator, batch), decode_operator)

    def schema(self, path: str) -> StateSchema:
        """A schema file."""
        return self._once(path, decode_schema)

    def snapshot(self, path: str) -> Snapshot:
        """The metadata inside a RocksDB zip."""
        return self._once(path, decode_snapshot)

    def lineage(self, folder: str, version: StateVersion, codec: str) -> tuple[StateVersion, ...]:
        """What a version in format 2 builds upon, oldest first."""
        known = self._lineages.get((folder, version))
        if known is None:
            known = self.own_lineage(f"{folder}/{changelog_name(version)}", codec)
            self._lineages[folder, version] = known
            self._learn(folder, known)
        return known

    def own_lineage(self, path: str, codec: str) -> tuple[StateVersion, ...]:
        """The lineage that a changelog itself records."""
        return self._once(path, lambda data, where: read_lineage(data, codec, where))

    def _learn(self, folder: str, lineage: tuple[StateVersion, ...]) -> None:
        # A lineage that reaches back to a base tells the lineages of all versions in it, which
        # saves reading a changelog per partition for every older batch.
        if lineage and (lineage[0].version == 1 or zip_name(lineage[0]) in self.names(folder)):
            for at, version in enumerate(lineage):
                self._lineages.setdefault((folder, version), lineage[:at])

    def read(self, path: str) -> bytes:
        """A whole file; ``MissingFile`` if it is not there (any more)."""
        try:
            return self.storage.read(path)
        except FileMissing as cause:
            raise self.missing(path) from cause

    def missing(self, path: str) -> MissingFile:
        """The error for a file that is not there."""
        location = self.storage.locate(path)
        if path in self.files:
            return MissingFile(
                "file vanished while it was being looked at",
                hint="A query is running on this query log and cleans up old batches. "
                "Use a newer batch, or raise spark.sql.streaming.minBatchesToRetain.",
                path=location,
            )
        return MissingFile("file is missing", path=location)

    def _once(self, path: str, decode: Callable[[bytes, str], T]) -> T:
        if path not in self._read:
            self._read[path] = decode(self.read(path), self.storage.locate(path))
        value: T = self._read[path]  # type: ignore[assignment]
        return value
