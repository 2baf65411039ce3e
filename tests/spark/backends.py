"""The ways Spark can keep state, as session settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_STATE = "spark.sql.streaming.stateStore"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
FORMAT_VERSION = f"{_STATE}.checkpointFormatVersion"


@dataclass(frozen=True)
class Backend:
    """``engine`` is Holdfast's word for the store, the rest is how Spark is told."""

    name: str
    engine: str
    conf: Mapping[str, str]


def _backend(name: str, engine: str, provider: str, version: int, changelog: bool) -> Backend:
    conf = {
        f"{_STATE}.providerClass": f"{_PROVIDERS}.{provider}",
        FORMAT_VERSION: str(version),
        f"{_STATE}.rocksdb.changelogCheckpointing.enabled": str(changelog).lower(),
    }
    return Backend(name, engine, conf)


HASHMAP = _backend("hashmap", "hashmap", "HDFSBackedStateStoreProvider", 1, False)
ROCKSDB_1 = _backend("rocksdb-1", "rocksdb", "RocksDBStateStoreProvider", 1, False)
ROCKSDB_1_CHANGELOG = _backend(
    "rocksdb-1-changelog", "rocksdb", "RocksDBStateStoreProvider", 1, True
)
ROCKSDB_2_CHANGELOG = _backend(
    "rocksdb-2-changelog", "rocksdb", "RocksDBStateStoreProvider", 2, True
)

BACKENDS = (HASHMAP, ROCKSDB_1, ROCKSDB_1_CHANGELOG, ROCKSDB_2_CHANGELOG)
