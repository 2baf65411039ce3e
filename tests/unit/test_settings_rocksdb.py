from __future__ import annotations

import pytest

from holdfast.settings.rocksdb import ROCKSDB_OPTIONS
from tests.unit.test_settings import CHK, refusal, settings

ROCKS = "state.backend.rocksdb."
SPARK = "spark.sql.streaming.stateStore."
PROVIDERS = "org.apache.spark.sql.execution.streaming.state."


def tuned(**given: object) -> dict[str, str]:
    """Spark's RocksDB settings that follow, without their prefix and without the fixed ones."""
    code = {ROCKS + key.replace("__", "-").replace("_", "."): given[key] for key in given}
    spark = settings({"state.backend.type": "rocksdb", **code}).state_spark
    tuning = {key.removeprefix(f"{SPARK}rocksdb."): spark[key] for key in spark}
    return {key: value for key, value in tuning.items() if "." not in key}


def test_each_backend_has_its_provider() -> None:
    assert settings().state_spark == {
        f"{SPARK}providerClass": f"{PROVIDERS}HDFSBackedStateStoreProvider"
    }
    assert settings({"state.backend": "rocksdb"}).state_spark == {
        f"{SPARK}providerClass": f"{PROVIDERS}RocksDBStateStoreProvider",
        f"{SPARK}checkpointFormatVersion": "2",
        f"{SPARK}rocksdb.changelogCheckpointing.enabled": "false",
    }


def test_incremental_checkpoints_turn_on_the_changelog_of_rocksdb_only() -> None:
    both = settings({"state.backend": "rocksdb", f"{CHK}incremental": True})
    assert both.state_spark[f"{SPARK}rocksdb.changelogCheckpointing.enabled"] == "true"
    hashmap = settings({f"{CHK}incremental": True})
    assert hashmap.checkpointing.incremental
    assert list(hashmap.state_spark) == [f"{SPARK}providerClass"]


def test_flinks_tuning_becomes_sparks() -> None:
    assert tuned(
        block_blocksize="16 kb",
        block_cache__size="64mb",
        writebuffer_size="1g",
        writebuffer_count=4,
        files_open=-1,
        memory_write__buffer__ratio=0.4,
        memory_high__prio__pool__ratio="0.2",
    ) == {
        "blockSizeKB": "16",
        "blockCacheSizeMB": "64",
        "writeBufferSizeMB": "1024",
        "maxWriteBufferNumber": "4",
        "maxOpenFiles": "-1",
        "writeBufferCacheRatio": "0.4",
        "highPriorityPoolRatio": "0.2",
    }


def test_bounded_memory_is_asked_for_or_follows_from_a_size() -> None:
    assert tuned(memory_managed=True) == {"boundedMemoryUsage": "true"}
    assert tuned(memory_managed=False) == {"boundedMemoryUsage": "false"}
    fixed = {"boundedMemoryUsage": "true", "maxMemoryUsageMB": "2048"}
    assert tuned(memory_fixed__per__slot="2 gb") == fixed
    assert tuned(memory_fixed__per__tm="2 gb", memory_managed=False) == fixed


def test_two_different_fixed_sizes_are_refused() -> None:
    said = refusal(
        {
            "state.backend": "rocksdb",
            f"{ROCKS}memory.fixed-per-slot": "1 gb",
            f"{ROCKS}memory.fixed-per-tm": "2 gb",
        }
    )
    assert f"differs from {ROCKS}memory.fixed-per-tm" in said


@pytest.mark.parametrize(
    ("flink", "name"),
    [
        ("NO_COMPRESSION", "none"),
        ("LZ4_COMPRESSION;LZ4_COMPRESSION", "lz4"),
        (["ZSTD_COMPRESSION", "zstd-compression"], "zstd"),
        ("zlib_compression", "z"),
    ],
)
def test_one_compression_is_meant_for_every_level(flink: object, name: str) -> None:
    assert tuned(compression_per_level=flink) == {"compression": name}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("block.blocksize", "1500", "the nearest is 1 kb"),
        ("block.blocksize", "1600", "the nearest is 2 kb"),
        ("writebuffer.size", "100 kb", "the nearest is 1 mb"),
        ("writebuffer.size", "0", "at least 1 mb"),
        ("memory.fixed-per-tm", "1.5 gb", "must be a size"),
        ("memory.write-buffer-ratio", "1", "more than 0 and less than 1"),
        ("memory.write-buffer-ratio", "0.95", "must be less than 1 together"),
        ("compression.per.level", "NO_COMPRESSION;LZ4_COMPRESSION", "same for every level"),
        ("compression.per.level", "BZLIB2_COMPRESSION", "must be one of NO_COMPRESSION"),
        ("files.opne", "5", f"did you mean {ROCKS}files.open?"),
    ],
)
def test_what_spark_cannot_do_is_refused_with_what_it_can(key: str, value: str, said: str) -> None:
    assert said in refusal({"state.backend": "rocksdb", ROCKS + key: value})


def test_tuning_needs_the_rocksdb_backend() -> None:
    said = refusal({f"{ROCKS}files.open": 100})
    assert f"{ROCKS}files.open = '100' (code): needs state.backend.type rocksdb" in said


def test_tuning_is_not_said_to_spark_as_well() -> None:
    said = refusal(
        {
            "state.backend": "rocksdb",
            f"{ROCKS}files.open": 100,
            f"{SPARK}rocksdb.maxopenfiles": 200,
        }
    )
    assert f"is also said by {ROCKS}files.open" in said


def test_tuning_that_is_not_given_is_not_described() -> None:
    keys = {line.key for line in settings().describe()}
    assert not keys & {option.key for option in ROCKSDB_OPTIONS}
