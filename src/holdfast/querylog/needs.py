"""What a batch needs and what is wrong with it, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from holdfast.querylog.versions import VersionFiles


class Role(Enum):
    """What a file is, which tells how to read it."""

    QUERY_ID = "query id"
    OFFSETS = "offsets"
    COMMIT = "commit"
    SOURCE_LOG = "file source log"
    SOURCE = "source"
    OPERATOR = "operator"
    SCHEMA = "schema"
    DELTA = "delta"
    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    ROCKSDB_ZIP = "RocksDB snapshot"
    ROCKSDB_TABLE = "RocksDB table"
    ROCKSDB_LOG = "RocksDB log"

    @property
    def is_state(self) -> bool:
        """Whether it holds rows of state."""
        return self in _STATE_ROLES


_STATE_ROLES = {
    Role.DELTA,
    Role.SNAPSHOT,
    Role.CHANGELOG,
    Role.ROCKSDB_ZIP,
    Role.ROCKSDB_TABLE,
    Role.ROCKSDB_LOG,
}


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file of the handle."""

    path: str
    size: int
    role: Role


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a batch cannot be restored: which file, and what is wrong with it."""

    path: str
    what: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """One partition of one store, at the version that the batch wrote."""

    operator: int
    store: str
    partition: int
    folder: str
    files: VersionFiles


@dataclass(frozen=True, slots=True)
class Plan:
    """The handle of one batch as far as names and sizes tell, and what is wrong with it."""

    batch: int
    backend: str
    codec: str
    files: tuple[NeededFile, ...]
    stores: tuple[StoreVersion, ...]
    problems: tuple[Problem, ...]
