"""Whatever is written is read back; whatever is cut short or changed is noticed."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.errors import DamagedFile, QueryLogError
from holdfast.querylog.batches import (
    Commit,
    Offsets,
    decode_commit,
    decode_metadata,
    decode_offsets,
    encode_commit,
    encode_metadata,
    encode_offsets,
)
from holdfast.querylog.changelog import Changelog, read_changelog, read_lineage, write_changelog
from holdfast.querylog.checksums import (
    SparkChecksum,
    check_hadoop,
    check_spark,
    crc32c,
    decode_spark_checksum,
    encode_hadoop_checksum,
    encode_spark_checksum,
)
from holdfast.querylog.compression import compress, decompress
from holdfast.querylog.entries import Entry
from holdfast.querylog.hashmap import read_delta, read_snapshot, write_delta, write_snapshot
from holdfast.querylog.javadata import JavaReader, java_utf
from holdfast.querylog.operators import Operator, decode_operator, encode_operator
from holdfast.querylog.rocksdb import (
    Snapshot,
    check_snapshot,
    decode_snapshot,
    encode_snapshot,
    read_members,
)
from holdfast.querylog.schemas import StateSchema, decode_schema, encode_schema
from holdfast.querylog.sourcelog import SeenFile, decode_seen, encode_seen
from tests.property.strategies import (
    CODECS,
    COMMITS,
    NAME,
    PLAIN_ENTRIES,
    SCHEMAS,
    SEEN,
    UUID,
    changelogs,
    offsets,
    operators,
)


@given(UUID)
def test_query_id_is_read_back(query_id: str) -> None:
    assert decode_metadata(encode_metadata(query_id), "metadata") == query_id


@given(offsets())
def test_offsets_are_read_back(entry: Offsets) -> None:
    assert decode_offsets(encode_offsets(entry), "offsets/1") == entry


@given(COMMITS)
def test_commits_are_read_back(commit: Commit) -> None:
    assert decode_commit(encode_commit(commit), "commits/1") == commit


@given(SEEN)
def test_source_log_is_read_back(seen: tuple[SeenFile, ...]) -> None:
    assert decode_seen(encode_seen(seen), "sources/0/1") == seen


@given(operators())
def test_operator_metadata_is_read_back(operator: Operator) -> None:
    assert decode_operator(encode_operator(operator), "metadata") == operator


@given(SCHEMAS)
def test_schemas_are_read_back(schema: StateSchema) -> None:
    assert decode_schema(encode_schema(schema), "schema") == schema


@given(st.text())
def test_java_strings_are_read_back(text: str) -> None:
    data = java_utf(text)
    assert b"\0" not in data[2:]
    assert JavaReader(data, "x").utf() == text


@given(CODECS, st.binary(max_size=100_000) | st.integers(0, 200_000).map(lambda n: b"ab" * n))
def test_compressed_data_is_read_back(codec: str, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), "x") == data


@given(CODECS, PLAIN_ENTRIES)
def test_deltas_are_read_back(codec: str, entries: tuple[Entry, ...]) -> None:
    assert tuple(read_delta(write_delta(entries, codec), codec, "1.delta")) == entries


@given(CODECS, st.dictionaries(st.binary(max_size=20), st.binary(max_size=50)))
def test_snapshots_are_read_back(codec: str, state: dict[bytes, bytes]) -> None:
    read = read_snapshot(write_snapshot(state, codec), codec, "1.snapshot")
    assert {entry.key: entry.value for entry in read} == state


@given(CODECS, changelogs())
def test_changelogs_are_read_back(codec: str, changelog: Changelog) -> None:
    data = write_changelog(changelog, codec)
    assert read_changelog(data, codec, "1.changelog") == changelog
    if changelog.version >= 3:
        assert read_lineage(data, codec, "1.changelog") == changelog.lineage


@given(st.dictionaries(NAME.filter(lambda n: n != "metadata"), st.binary(max_size=100), max_size=4))
def test_rocksdb_zips_are_read_back(members: dict[str, bytes]) -> None:
    snapshot = Snapshot({"sstFiles": [], "numKeys": 3})
    data = encode_snapshot(snapshot, members)
    assert decode_snapshot(data, "1.zip") == snapshot
    assert read_members(data, "1.zip") == members
    check_snapshot(data, "1.zip")


@given(st.binary(max_size=5000))
def test_checksums_fit_what_they_were_made_of(data: bytes) -> None:
    checksum = SparkChecksum(crc32c(data), len(data))
    assert decode_spark_checksum(encode_spark_checksum(checksum, 0), "x.crc") == checksum
    check_spark(data, checksum, "x")
    check_hadoop(data, encode_hadoop_checksum(data), "x")


@given(st.binary(min_size=1, max_size=5000), st.data())
def test_checksums_notice_one_flipped_bit(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) * 8 - 1))
    altered = bytearray(data)
    altered[at // 8] ^= 1 << at % 8
    with pytest.raises(DamagedFile):
        check_spark(bytes(altered), SparkChecksum(crc32c(data), len(data)), "x")
    with pytest.raises(DamagedFile):
        check_hadoop(bytes(altered), encode_hadoop_checksum(data), "x")


@given(CODECS, changelogs(), st.data())
def test_a_changelog_cut_short_is_refused(
    codec: str, changelog: Changelog, draw: st.DataObject
) -> None:
    data = write_changelog(changelog, codec)
    cut = draw.draw(st.integers(0, len(data) - 1))
    # A version-1 changelog is told from the others by its first bytes alone, as in Spark.
    assume(cut > 0 or codec != "snappy")
    with pytest.raises(QueryLogError) as refused:
        read_changelog(data[:cut], codec, "7.changelog")
    assert refused.value.ids["path"] == "7.changelog"


@given(PLAIN_ENTRIES, st.data())
def test_an_altered_lz4_file_is_refused(entries: tuple[Entry, ...], draw: st.DataObject) -> None:
    data = write_delta(entries, "lz4")
    at = draw.draw(st.integers(0, len(data) - 1))
    altered = bytearray(data)
    altered[at] ^= draw.draw(st.integers(1, 255))
    # Some bits mean nothing (the block-size nibble, sizes in the end mark).
    with contextlib.suppress(DamagedFile):
        assert tuple(read_delta(bytes(altered), "lz4", "1.delta")) == entries


@given(st.binary(max_size=300).filter(lambda noise: not noise.startswith(b"v")))
def test_noise_is_refused_not_misread(noise: bytes) -> None:
    for decode in (decode_offsets, decode_commit, decode_seen, decode_operator, decode_schema):
        with pytest.raises(QueryLogError):
            decode(noise, "some/path")
    for read in (decode_snapshot, check_snapshot):
        with pytest.raises(DamagedFile):
            read(noise, "1.zip")
