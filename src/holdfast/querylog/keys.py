"""Counting the keys of a state store without loading it.

Hashmap files are read and replayed. For RocksDB the snapshot says how many keys it holds; of the
changelogs after it only the keys they touch are looked up in the snapshot's tables. So the cost
follows what changed since the snapshot, not the size of the state.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.querylog.changelog import read_changelog
from holdfast.querylog.entries import Change, Entry
from holdfast.querylog.hashmap import read_delta, read_snapshot
from holdfast.querylog.log import QueryLog
from holdfast.querylog.needs import StoreVersion
from holdfast.querylog.rocksdb import Snapshot
from holdfast.querylog.sst import Table

_MAX_LOOKUPS = 50_000
"""Per partition; beyond it the count is given as an estimate."""


@dataclass(frozen=True, slots=True)
class KeyCount:
    """A number of keys; ``exact`` is false where it may be too high."""

    keys: int
    exact: bool = True

    def __add__(self, other: KeyCount) -> KeyCount:
        return KeyCount(self.keys + other.keys, self.exact and other.exact)


def count_keys(log: QueryLog, store: StoreVersion, backend: str, codec: str) -> KeyCount | None:
    """Keys in one partition of one store; ``None`` if Spark was told not to count."""
    if backend == "hashmap":
        return _hashmap(log, store, codec)
    changed: dict[bytes, bool] = {}
    ranges = False
    for name in store.files.changes:
        path = f"{store.folder}/{name}"
        log_file = read_changelog(log.read(path), codec, log.storage.locate(path))
        ranges |= _apply(log_file.entries, changed)
    if store.files.base is None:
        return KeyCount(_present(changed.items(), None), exact=not ranges)
    snapshot = log.snapshot(f"{store.folder}/{store.files.base}")
    if snapshot.keys is None:
        return None
    count = _against_snapshot(log, store, snapshot, changed)
    return KeyCount(count.keys, count.exact and not ranges)


def _hashmap(log: QueryLog, store: StoreVersion, codec: str) -> KeyCount:
    changed: dict[bytes, bool] = {}
    if store.files.base is not None:
        path = f"{store.folder}/{store.files.base}"
        _apply(read_snapshot(log.read(path), codec, log.storage.locate(path)), changed)
    for name in store.files.changes:
        path = f"{store.folder}/{name}"
        _apply(read_delta(log.read(path), codec, log.storage.locate(path)), changed)
    return KeyCount(_present(changed.items(), None))


def _apply(entries: Iterable[Entry], changed: dict[bytes, bool]) -> bool:
    """Remember for each key whether it is there afterwards; true if a range was removed."""
    ranges = False
    for entry in entries:
        if entry.change is Change.DELETE_RANGE:
            ranges = True
            for key in [k for k in changed if entry.key <= k < entry.value]:
                changed[key] = False
        else:
            changed[entry.key] = entry.change is not Change.DELETE
    return ranges


def _present(changed: Iterable[tuple[bytes, bool]], counted: frozenset[bytes] | None) -> int:
    return sum(there for key, there in changed if counted is None or key[:2] in counted)


def _against_snapshot(
    log: QueryLog, store: StoreVersion, snapshot: Snapshot, changed: dict[bytes, bool]
) -> KeyCount:
    known = snapshot.keys or 0
    counted = _counted_prefixes(snapshot)
    relevant = {k: there for k, there in changed.items() if counted is None or k[:2] in counted}
    if not relevant:
        return KeyCount(known)
    if len(relevant) > _MAX_LOOKUPS:
        return KeyCount(known + sum(relevant.values()), exact=False)
    tables = [
        Table(log.read(path), log.storage.locate(path))
        for path in (f"{store.folder}/{f.path}" for f in snapshot.shared_files if f.is_table)
    ]
    before = sum(_exists(tables, key) for key in relevant)
    exact = not any(table.has_range_deletes for table in tables)
    return KeyCount(known - before + sum(relevant.values()), exact)


def _counted_prefixes(snapshot: Snapshot) -> frozenset[bytes] | None:
    if not snapshot.families:
        return None
    return frozenset(
        number.to_bytes(2, sys.byteorder)  # as the JVM that wrote it
        for name, number in snapshot.families.items()
        if not snapshot.is_internal(name)
    )


def _exists(tables: list[Table], key: bytes) -> bool:
    found = [f for f in (table.find(key) for table in tables) if f is not None]
    return bool(found) and max(found, key=lambda f: f.sequence).exists
