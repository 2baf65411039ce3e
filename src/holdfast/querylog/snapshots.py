"""A query log at one batch, for whoever keeps it elsewhere and brings it back in another place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from holdfast.errors import FileMissing, NotAQueryLog, NotRestorable
from holdfast.querylog.batches import (
    PARTITIONS_SETTING,
    commit_path,
    decode_offsets,
    encode_offsets,
    offsets_path,
)
from holdfast.querylog.checksums import decode_spark_checksum, spark_checksum_path
from holdfast.querylog.log import QueryLog, open_log
from holdfast.querylog.needs import Plan
from holdfast.querylog.operators import KINDS, decode_operator, encode_operator, relocated
from holdfast.querylog.planning import schema_files
from holdfast.querylog.selection import restorable_plan
from holdfast.storage import Storage


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One file that the batch needs."""

    path: str
    size: int
    modified: float
    is_state: bool


@dataclass(frozen=True, slots=True)
class OperatorTypes:
    """A stateful operator and the types of what it keeps, as Spark's schema JSON."""

    id: int
    name: str
    kind: str
    stores: Mapping[str, tuple[Mapping[str, Any], ...]]
    """Of each store its column families: name, key, value."""


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """What a query log is at one committed batch."""

    location: str
    batch: int
    query_id: str
    backend: str
    partitions: int | None
    watermark_ms: int
    offsets: Mapping[str, str | None]
    operators: tuple[OperatorTypes, ...]
    files: tuple[SnapshotFile, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """The newest batch that a query has committed, and how far it had then read."""

    batch: int
    offsets: Mapping[str, str | None]


def newest_commit(location: str | PathLike[str]) -> Committed | None:
    """Where a query stands; ``None`` if it has committed nothing, or does not exist."""
    try:
        log = open_log(location)
    except NotAQueryLog as error:
        if "does not exist" in error.message:
            return None
        raise
    if not log.committed:
        return None
    batch = log.committed[-1]
    return Committed(batch, log.offsets(batch).sources)


def refuse_skipped(location: str | PathLike[str]) -> None:
    """Of a query that does not run: refuse a log of which Spark would leave out a batch.

    Spark runs the newest planned batch again and takes all before it for done. If the commit of
    one of those is lost, it is not known whether its rows went anywhere, and it never comes again.
    """
    try:
        log = open_log(location)
    except NotAQueryLog:
        return
    for batch in log.unfinished[:-1]:
        raise NotRestorable(
            f"batch {batch} was planned and not committed, but a later one was planned too",
            hint="The file has been deleted: Spark would leave the batch out. Restore from a "
            "checkpoint with --from PATH.",
            path=log.storage.locate(commit_path(batch)),
        )


def offsets_file(batch: int) -> str:
    """Where a query log says how far ``batch`` reads."""
    return offsets_path(batch)


def offsets_at(location: str | PathLike[str], batch: int) -> Mapping[str, str | None]:
    """How far a query had read with ``batch``."""
    return open_log(location).offsets(batch).sources


def snapshot(location: str | PathLike[str], batch: int) -> LogSnapshot:
    """Work out what ``batch`` needs; ``NotRestorable`` if something is missing."""
    log = open_log(location)
    plan = restorable_plan(log, batch)
    offsets = log.offsets(batch)
    partitions = offsets.settings.get(PARTITIONS_SETTING)
    return LogSnapshot(
        location=log.storage.uri,
        batch=batch,
        query_id=log.query_id,
        backend=plan.backend,
        partitions=int(partitions) if partitions and partitions.isdigit() else None,
        watermark_ms=log.commit(batch).next_watermark_ms,
        offsets=dict(offsets.sources),
        operators=tuple(_types(log, number, batch) for number in log.operator_ids),
        files=tuple(_files(log, plan)),
    )


def _files(log: QueryLog, plan: Plan) -> list[SnapshotFile]:
    return [
        SnapshotFile(f.path, f.size, log.files[f.path].modified, f.role.is_state)
        for f in plan.files
    ]


def _types(log: QueryLog, number: int, batch: int) -> OperatorTypes:
    operator = log.operator(number, batch)
    stores = {}
    for store in operator.stores:
        path = schema_files(number, store, operator)[-1]
        stores[store] = tuple(
            {"family": f.name, "key": json.loads(f.key), "value": json.loads(f.value)}
            for f in log.schema(path).families
        )
    return OperatorTypes(number, operator.name, KINDS.get(operator.name, operator.name), stores)


def known_checksum(storage: Storage, path: str) -> int | None:
    """The checksum that Spark has written beside a state file, if it has (format 2)."""
    beside = spark_checksum_path(path)
    try:
        return decode_spark_checksum(storage.read(beside), storage.locate(beside)).crc32c
    except FileMissing:
        return None


def names_its_place(path: str) -> bool:
    """Whether the file says where its query log lies, so that ``moved`` must write it anew."""
    return path.startswith("state/") and "/_metadata/v2/" in path


def moved(path: str, data: bytes, location: str) -> bytes:
    """The contents of such a file when the query log lies at ``location``."""
    operator = decode_operator(data, path)
    root = "/".join(path.split("/")[:2])
    place = f"file:{location}" if location.startswith("/") else location
    return encode_operator(relocated(operator, f"{place.rstrip('/')}/{root}"))


def is_offsets_of(path: str, batch: int) -> bool:
    """Whether the file holds the offsets of ``batch``."""
    return path == offsets_path(batch)


def edited_offsets(data: bytes, edit: Callable[[str], str], path: str) -> bytes:
    """An offsets file with every source's offset put through ``edit``."""
    offsets = decode_offsets(data, path)
    sources = {
        name: None if offset is None else edit(offset) for name, offset in offsets.sources.items()
    }
    return encode_offsets(replace(offsets, sources=sources))
