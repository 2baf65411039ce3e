"""Flink's RocksDB tuning as Spark's RocksDB settings.

Spark has an equivalent for some of Flink's keys only, counts in whole kilobytes and megabytes, and
bounds memory per executor. The rest is refused by name in ``refused.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.settings.options import Option
from holdfast.settings.values import BOOLEAN, INTEGER, Kind, folded, read_number, read_size

STATE_STORE = "spark.sql.streaming.stateStore."
PROVIDER_CLASS = f"{STATE_STORE}providerClass"
FORMAT_VERSION = f"{STATE_STORE}checkpointFormatVersion"
_SPARK_ROCKSDB = f"{STATE_STORE}rocksdb."
CHANGELOG = f"{_SPARK_ROCKSDB}changelogCheckpointing.enabled"

_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
_ROCKSDB = "state.backend.rocksdb."

# What Spark hands to RocksDB; RocksDB takes a name it does not know for no compression. bzip2 is
# left out because the files could not be verified.
_COMPRESSIONS = {
    "no-compression": "none",
    "snappy-compression": "snappy",
    "zlib-compression": "z",
    "lz4-compression": "lz4",
    "lz4hc-compression": "lz4hc",
    "zstd-compression": "zstd",
}


def _whole(unit: str) -> Kind[int]:
    size = read_size(f"1 {unit}")

    def read(text: str) -> int:
        count, rest = divmod(read_size(text), size)
        if rest:
            nearest = max(1, count + (2 * rest >= size))
            raise ValueError(f"must be whole {unit} for Spark; the nearest is {nearest} {unit}")
        return count

    return Kind(f"size in whole {unit}", read)


def _read_ratio(text: str) -> float:
    ratio = read_number(text)
    if not 0 < ratio < 1:
        raise ValueError("must be more than 0 and less than 1")
    return ratio


def _read_compression(text: str) -> str:
    levels = {folded(level) for level in text.split(";")}
    if not levels <= _COMPRESSIONS.keys():
        names = ", ".join(name.upper().replace("-", "_") for name in _COMPRESSIONS)
        raise ValueError(f"must be one of {names}")
    if len(levels) > 1:
        raise ValueError("must be the same for every level: Spark has one compression for all")
    return _COMPRESSIONS[levels.pop()]


_WHOLE_KB = _whole("kb")
_WHOLE_MB = _whole("mb")
_RATIO = Kind("number between 0 and 1", _read_ratio)
_PER_EXECUTOR = (
    "Most memory of all RocksDB instances of an executor: Spark counts per executor, Flink per "
)

MEMORY_MANAGED = Option(
    f"{_ROCKSDB}memory.managed",
    BOOLEAN,
    "Bound the memory of all RocksDB instances of an executor together, at 500 mb unless a fixed "
    "size is given. Then `block.cache-size` has no effect. Flink's default is true.",
    otherwise="Spark's: false",
)
MEMORY_PER_SLOT = Option(
    f"{_ROCKSDB}memory.fixed-per-slot",
    _WHOLE_MB,
    f"{_PER_EXECUTOR}slot. Give this or `fixed-per-tm`.",
    least="1 mb",
)
MEMORY_PER_TASK_MANAGER = Option(
    f"{_ROCKSDB}memory.fixed-per-tm",
    _WHOLE_MB,
    f"{_PER_EXECUTOR}task manager, which is the same thing.",
    least="1 mb",
)
WRITE_BUFFER_RATIO = Option(
    f"{_ROCKSDB}memory.write-buffer-ratio",
    _RATIO,
    "Share of bounded memory that write buffers may take. Together with `high-prio-pool-ratio` "
    "less than 1.",
    otherwise="Spark's: 0.5",
)
HIGH_PRIORITY_RATIO = Option(
    f"{_ROCKSDB}memory.high-prio-pool-ratio",
    _RATIO,
    "Share of bounded memory kept for index and filter blocks.",
    otherwise="Spark's: 0.1",
)

_DIRECT: dict[str, Option[Any]] = {
    "blockSizeKB": Option(
        f"{_ROCKSDB}block.blocksize",
        _WHOLE_KB,
        "Size of a data block before compression.",
        otherwise="Spark's: 4 kb",
        least="1 kb",
    ),
    "blockCacheSizeMB": Option(
        f"{_ROCKSDB}block.cache-size",
        _WHOLE_MB,
        "Cache for data blocks of one state partition.",
        otherwise="Spark's: 8 mb",
    ),
    "writeBufferSizeMB": Option(
        f"{_ROCKSDB}writebuffer.size",
        _WHOLE_MB,
        "Size of a write buffer.",
        otherwise="RocksDB's: 64 mb",
        least="1 mb",
    ),
    "maxWriteBufferNumber": Option(
        f"{_ROCKSDB}writebuffer.count",
        INTEGER,
        "Most write buffers, the active one included.",
        otherwise="RocksDB's: 2",
        least="1",
    ),
    "maxOpenFiles": Option(
        f"{_ROCKSDB}files.open",
        INTEGER,
        "Most open files of one state partition; -1 is no limit.",
        otherwise="Spark's: -1",
        least="-1",
    ),
    "compression": Option(
        f"{_ROCKSDB}compression.per.level",
        Kind("list of compressions", _read_compression),
        "Compression of the table files, the same for every level: `NO_COMPRESSION`, "
        "`SNAPPY_COMPRESSION`, `ZLIB_COMPRESSION`, `LZ4_COMPRESSION`, `LZ4HC_COMPRESSION` or "
        "`ZSTD_COMPRESSION`.",
        otherwise="Spark's: `LZ4_COMPRESSION`",
    ),
    "writeBufferCacheRatio": WRITE_BUFFER_RATIO,
    "highPriorityPoolRatio": HIGH_PRIORITY_RATIO,
}

ROCKSDB_OPTIONS: tuple[Option[Any], ...] = (
    *_DIRECT.values(),
    MEMORY_MANAGED,
    MEMORY_PER_SLOT,
    MEMORY_PER_TASK_MANAGER,
)

Find = Callable[[Option[Any]], Any]


def key_behind(spark_key: str) -> str:
    """The Flink key that sets a Spark key of RocksDB, for messages."""
    option = _DIRECT.get(spark_key.removeprefix(_SPARK_ROCKSDB))
    return option.key if option else f"{_ROCKSDB}memory.*"


def hashmap_spark() -> dict[str, str]:
    """Spark settings of the hashmap backend."""
    return {PROVIDER_CLASS: f"{_PROVIDERS}HDFSBackedStateStoreProvider"}


def rocksdb_spark(find: Find, *, incremental: bool) -> dict[str, str]:
    """Spark settings of the RocksDB backend; ``find`` gives an option's value or None."""
    return {
        PROVIDER_CLASS: f"{_PROVIDERS}RocksDBStateStoreProvider",
        FORMAT_VERSION: "2",
        CHANGELOG: str(incremental).lower(),
        **_tuning(find),
    }


def _tuning(find: Find) -> Mapping[str, str]:
    direct = {name: find(option) for name, option in _DIRECT.items()}
    given = {name: str(value) for name, value in direct.items() if value is not None}
    given |= _memory(find)
    return {f"{_SPARK_ROCKSDB}{name}": value for name, value in given.items()}


def _memory(find: Find) -> dict[str, str]:
    managed, fixed = find(MEMORY_MANAGED), find(MEMORY_PER_SLOT) or find(MEMORY_PER_TASK_MANAGER)
    if fixed is not None:
        return {"boundedMemoryUsage": "true", "maxMemoryUsageMB": str(fixed)}
    return {} if managed is None else {"boundedMemoryUsage": str(managed).lower()}
