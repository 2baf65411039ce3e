"""``_metadata``: whatever is written is read back, and what is not whole is named."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checkpoints.metadata import (
    FORMAT,
    VERSION,
    CheckpointMetadata,
    InputSnapshot,
    RegionSnapshot,
    SegmentSnapshot,
    StoredFile,
    Transaction,
    checksum,
    decode,
    encode,
)
from holdfast.errors import DamagedFile, UnknownFormat

PATH = "/checkpoints/job/chk-7/_metadata"

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_NUMBER = st.integers(-1, 2**53)
_TIME = st.floats(0, 2e9)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBER | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)
_OBJECT = st.dictionaries(_TEXT, _JSON, max_size=2)


def _some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


_FILES = st.builds(
    StoredFile,
    _TEXT,
    _NUMBER,
    _TEXT,
    st.booleans(),
    st.none() | _TEXT,
    st.none() | st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode()),
)
_MAYBE = st.none() | _NUMBER
_INPUTS = st.builds(InputSnapshot, _TEXT, _TEXT, _MAYBE, _MAYBE, st.none() | _TEXT)
_REGIONS = st.builds(
    RegionSnapshot,
    uid=_TEXT,
    cut=_NUMBER,
    output_mode=_TEXT,
    inputs=_some(_INPUTS),
    schema=_OBJECT,
    query_id=st.none() | _TEXT,
    backend=st.none() | _TEXT,
    partitions=_MAYBE,
    watermark_ms=_NUMBER,
    operators=_some(_OBJECT),
    files=_some(_FILES),
    statistics=_OBJECT,
)
_CHECKPOINTS = st.builds(
    CheckpointMetadata,
    job_id=_TEXT,
    job_name=_TEXT,
    id=_NUMBER,
    kind=_TEXT,
    mode=_TEXT,
    unaligned=st.booleans(),
    full=st.booleans(),
    triggered=_TIME,
    completed=_TIME,
    attempt=_NUMBER,
    holdfast=_TEXT,
    spark=_TEXT,
    regions=_some(_REGIONS),
    in_flight=_some(st.builds(SegmentSnapshot, _TEXT, _NUMBER, _some(_FILES))),
    transactions=_some(st.builds(Transaction, _TEXT, _NUMBER, _NUMBER, _NUMBER, _OBJECT)),
    user=_OBJECT,
    statistics=_OBJECT,
)


def _example() -> CheckpointMetadata:
    kept = StoredFile("state/0/1.delta", 5, "0a0b0c0d", True, "shared/1/pv/state_0_1.delta")
    own = StoredFile("offsets/7", 3, "11223344", False, "chk-7/1/pv/offsets/7")
    small = StoredFile("commits/7", 2, "55667788", False, inline="aGk=")
    region = RegionSnapshot(
        "pv", 7, "update", (InputSnapshot("views", "channel", 8, 8),), {}, files=(kept, own, small)
    )
    return CheckpointMetadata(
        job_id="ab" * 16,
        job_name="page-views",
        id=7,
        kind="checkpoint",
        mode="exactly-once",
        unaligned=True,
        full=False,
        triggered=1.5,
        completed=2.5,
        attempt=1,
        holdfast="0.1.0",
        spark="4.3.0",
        regions=(region,),
        in_flight=(SegmentSnapshot("views", 9, (StoredFile("part-0", 4, "99aabbcc"),)),),
        transactions=(Transaction("out", 7, 0, 3, {"id": "t-7"}),),
        user={"hook": [1, 2]},
    )


@settings(max_examples=100, deadline=None)
@given(_CHECKPOINTS)
def test_what_is_written_is_read_back(metadata: CheckpointMetadata) -> None:
    assert decode(encode(metadata), PATH) == metadata


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_file_that_was_cut_short_is_damaged_wherever_it_was_cut(data: st.DataObject) -> None:
    whole = encode(_example())
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DamagedFile) as failure:
        decode(whole[:end], PATH)
    assert failure.value.ids["path"] == PATH


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_byte_can_be_altered_without_notice(data: st.DataObject) -> None:
    altered = bytearray(encode(_example()))
    at = data.draw(st.integers(0, len(altered) - 1))
    altered[at] ^= data.draw(st.integers(1, 255))
    if _document(bytes(altered)) == _document(encode(_example())):
        return  # only the layout is another
    with pytest.raises((DamagedFile, UnknownFormat)) as failure:
        decode(bytes(altered), PATH)
    assert failure.value.ids["path"] == PATH


def _document(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def test_a_person_may_reformat_the_file() -> None:
    document = json.loads(encode(_example()))
    assert decode(json.dumps(document, indent=4).encode(), PATH) == _example()


@pytest.mark.parametrize("field", ["regions", "in_flight", "transactions", "job_id", "spark"])
def test_a_field_that_is_missing_is_damage(field: str) -> None:
    with pytest.raises(DamagedFile, match=field) as failure:
        decode(_file_with({field: ...}), PATH)
    assert failure.value.ids["path"] == PATH


@pytest.mark.parametrize("wrong", [None, 3, "text", [3], [[]], {"uid": "pv"}, [{"uid": "pv"}]])
def test_regions_that_are_no_regions_are_damage(wrong: object) -> None:
    with pytest.raises(DamagedFile) as failure:
        decode(_file_with({"regions": wrong}), PATH)
    assert failure.value.ids["path"] == PATH


def _file_with(changes: dict[str, Any]) -> bytes:
    """A file whose checksum fits; ``...`` leaves a field out."""
    document = json.loads(encode(_example())) | changes
    body = {
        name: value
        for name, value in document.items()
        if name not in ("format", "version", "crc32c") and value is not ...
    }
    document = {"format": FORMAT, "version": VERSION, "crc32c": checksum(body), **body}
    return json.dumps(document).encode()


@pytest.mark.parametrize("version", [0, VERSION + 1, "1", None])
def test_another_version_is_refused_with_what_to_do(version: object) -> None:
    document = {**json.loads(encode(_example())), "version": version}
    with pytest.raises(UnknownFormat) as failure:
        decode(json.dumps(document).encode(), PATH)
    assert failure.value.ids["path"] == PATH
    assert str(VERSION) in str(failure.value.hint)


@pytest.mark.parametrize("other", [b"", b"{}", b"[]", b"null", b'"x"', b"7", b'{"format":"x"}'])
def test_any_other_file_is_not_taken_for_metadata(other: bytes) -> None:
    with pytest.raises(DamagedFile) as failure:
        decode(other, PATH)
    assert failure.value.ids["path"] == PATH


def test_the_file_says_what_it_is_before_anything_else() -> None:
    document = json.loads(encode(_example()))
    assert list(document.items())[:2] == [("format", FORMAT), ("version", VERSION)]


def test_a_restore_needs_the_files_of_regions_and_of_in_flight_data() -> None:
    metadata = _example()
    assert [file.path for file in metadata.files] == [
        "state/0/1.delta",
        "offsets/7",
        "commits/7",
        "part-0",
    ]
    assert metadata.size == 14
    assert metadata.regions[0].size == 10
    assert metadata.in_flight[0].size == 4


def test_only_files_in_the_shared_folder_are_shared() -> None:
    kept, own, small = _example().regions[0].files
    assert (kept.shared, own.shared, small.shared) == (True, False, False)
    assert (kept.contents(), small.contents()) == (None, b"hi")


def test_a_region_is_found_by_its_uid() -> None:
    metadata = _example()
    assert metadata.region("pv") is metadata.regions[0]
    assert metadata.region("views") is None
