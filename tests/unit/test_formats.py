"""Foreign versions are refused by name; files are told what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.errors import DamagedFile, UnknownFormat
from holdfast.querylog.batches import Offsets, decode_commit, decode_metadata, decode_offsets
from holdfast.querylog.changelog import read_changelog
from holdfast.querylog.compression import compress, decompress
from holdfast.querylog.javadata import java_utf
from holdfast.querylog.operators import Operator, decode_operator, relocated
from holdfast.querylog.planning import backend_of
from holdfast.querylog.schemas import decode_schema
from holdfast.querylog.selection import batch_ranges
from holdfast.querylog.sourcelog import decode_seen


@pytest.mark.parametrize(
    ("decode", "data", "version"),
    [
        (decode_offsets, b"v3\n{}\n-", "v3"),
        (decode_commit, b"v4\n{}", "v4"),
        (decode_seen, b"v2\n", "v2"),
        (decode_operator, b"v9\n{}", "v9"),
        (decode_schema, java_utf("v7"), "v7"),
    ],
)
def test_a_version_from_the_future_is_refused_by_name(
    decode: Callable[[bytes, str], object], data: bytes, version: str
) -> None:
    with pytest.raises(UnknownFormat, match=version) as refused:
        decode(data, "the/path")
    assert refused.value.ids["path"] == "the/path"
    assert refused.value.hint


def test_a_changelog_from_the_future_is_refused_by_name() -> None:
    with pytest.raises(UnknownFormat, match="version 5"):
        read_changelog(compress("lz4", java_utf("v5")), "lz4", "1.changelog")


def test_an_unknown_codec_is_refused_by_name() -> None:
    with pytest.raises(UnknownFormat, match="lzf"):
        decompress("lzf", b"", "1.delta")


def test_an_unknown_state_store_is_refused_by_name() -> None:
    conf = {"spark.sql.streaming.stateStore.providerClass": "com.acme.MyProvider"}
    with pytest.raises(UnknownFormat, match=r"com\.acme\.MyProvider"):
        backend_of(Offsets(1, {"conf": conf}, {}), "offsets/0")


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"v1", b"v1\n{", b"v1\n{}", b'v1\n{}\n{"logOff', b"\xff\xfe"]
)
def test_broken_offsets_are_refused(data: bytes) -> None:
    with pytest.raises(DamagedFile):
        decode_offsets(data, "offsets/3")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"id":7}', b"\xff"])
def test_a_broken_query_id_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedFile):
        decode_metadata(data, "metadata")


def test_offsets_keep_their_sources_apart() -> None:
    first = decode_offsets(b'v1\n{}\n{"logOffset":3}\n-', "offsets/0")
    assert first.sources == {"0": '{"logOffset":3}', "1": None}
    named = decode_offsets(b'v2\n{}\norders:{"t":{"0":1}}\nrates:7', "offsets/0")
    assert named.sources == {"orders": '{"t":{"0":1}}', "rates": "7"}


def test_schema_locations_move_with_the_copy() -> None:
    info = {
        "storeName": "default",
        "stateSchemaFilePaths": ["file:/old/state/0/_stateSchema/default/0_x"],
    }
    operator = Operator(2, {"operatorInfo": {"operatorName": "t"}, "stateStoreInfo": [info]})
    moved = relocated(operator, "hdfs://nn/new/state/0")
    assert moved.schema_locations("default") == ("hdfs://nn/new/state/0/_stateSchema/default/0_x",)


def test_batches_are_shown_as_ranges() -> None:
    assert batch_ranges([]) == ""
    assert batch_ranges([3]) == "3"
    assert batch_ranges([0, 1, 2, 4, 7, 8]) == "0-2, 4, 7-8"
    assert batch_ranges([0, 2, 4, 6], most=2) == "…, 4, 6"
