"""The ways Spark can keep state, as session settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_STATE = "spark.sql.streaming.stateStore"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
FORMAT_VERSION = f"{_STATE}.checkpointFormatVersion"


@dataclass(frozen=True, eq=False)
class Backend:
    """Spark's settings, and ``engine`` and ``format`` as Holdfast reports them."""

    name: str
    engine: str
    format: str
    conf: Mapping[str, str]


def _conf(provider: str, version: int, changelog: bool) -> dict[str, str]:
    return {
        f"{_STATE}.providerClass": f"{_PROVIDERS}.{provider}",
        FORMAT_VERSION: str(version),
        f"{_STATE}.rocksdb.changelogCheckpointing.enabled": str(changelog).lower(),
    }


_HASHMAP, _ROCKSDB = "HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"

# One of them as Spark itself writes query logs; jobs, and the others here, rename files faster.
_SPARKS_OWN_RENAMES = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileContextBasedCheckpointFileManager"
}

HASHMAP = Backend(
    "hashmap", "hashmap", "1", _conf(_HASHMAP, 1, changelog=False) | _SPARKS_OWN_RENAMES
)
ROCKSDB_1 = Backend("rocksdb-1", "rocksdb", "1", _conf(_ROCKSDB, 1, changelog=False))
ROCKSDB_1_CHANGELOG = Backend(
    "rocksdb-1-changelog", "rocksdb", "1 + changelog", _conf(_ROCKSDB, 1, changelog=True)
)
ROCKSDB_2_CHANGELOG = Backend(
    "rocksdb-2-changelog", "rocksdb", "2 + changelog", _conf(_ROCKSDB, 2, changelog=True)
)

BACKENDS = (HASHMAP, ROCKSDB_1, ROCKSDB_1_CHANGELOG, ROCKSDB_2_CHANGELOG)
