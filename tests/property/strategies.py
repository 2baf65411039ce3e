"""Random contents for every kind of file in a query log."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from holdfast.querylog.batches import Commit, Offsets
from holdfast.querylog.changelog import Changelog, StateVersion
from holdfast.querylog.entries import Change, Entry
from holdfast.querylog.operators import Operator
from holdfast.querylog.schemas import FamilySchema, StateSchema
from holdfast.querylog.sourcelog import SeenFile

CODECS = st.sampled_from(["lz4", "zstd", "snappy"])
# A line of a log cannot hold a line break; surrogates alone are no text.
LINE = st.text(
    st.characters(
        exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", exclude_categories=["Cs"]
    ),
    min_size=1,
    max_size=20,
).filter(lambda text: text != "-")
NAME = st.from_regex(r"[A-Za-z0-9_]{1,12}", fullmatch=True)
NUMBER = st.integers(0, 2**53)
UUID = st.uuids().map(str)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | LINE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3),
    max_leaves=6,
)

_SOURCES = st.dictionaries(NAME, st.none() | JSON.map(json.dumps), min_size=1, max_size=4)
_CONF = st.dictionaries(LINE, LINE, max_size=5)
_METADATA = st.fixed_dictionaries(
    {"batchWatermarkMs": NUMBER, "batchTimestampMs": NUMBER, "conf": _CONF}
)


@st.composite
def offsets(draw: st.DrawFn) -> Offsets:
    version = draw(st.sampled_from([1, 2]))
    sources = draw(_SOURCES)
    if version == 1:
        sources = {str(at): offset for at, offset in enumerate(sources.values())}
    return Offsets(version, draw(_METADATA), sources)


_IDS = st.dictionaries(
    st.integers(0, 9).map(str),
    st.lists(st.lists(UUID, min_size=1, max_size=4), min_size=1, max_size=3),
    min_size=1,
    max_size=2,
)
COMMITS = st.one_of(
    st.builds(Commit, st.just(1), st.fixed_dictionaries({"nextBatchWatermarkMs": NUMBER})),
    st.builds(
        Commit,
        st.sampled_from([2, 3]),
        st.fixed_dictionaries({"nextBatchWatermarkMs": NUMBER, "stateUniqueIds": _IDS}),
    ),
)
SEEN = st.lists(st.builds(SeenFile, LINE, NUMBER, NUMBER), min_size=1, max_size=5).map(tuple)

_STORE_1 = st.fixed_dictionaries(
    {"storeName": NAME, "numColsPrefixKey": NUMBER, "numPartitions": NUMBER}
)
_STORE_2 = st.fixed_dictionaries(
    {
        "storeName": NAME,
        "numColsPrefixKey": NUMBER,
        "numPartitions": NUMBER,
        "stateSchemaFilePaths": st.lists(LINE, max_size=2),
    }
)


@st.composite
def operators(draw: st.DrawFn) -> Operator:
    version = draw(st.sampled_from([1, 2]))
    metadata = {
        "operatorInfo": {"operatorId": draw(st.integers(0, 9)), "operatorName": draw(NAME)},
        "stateStoreInfo": draw(st.lists(_STORE_1 if version == 1 else _STORE_2, max_size=4)),
    }
    return Operator(version, metadata)


_STRUCT = st.lists(LINE, max_size=4).map(
    lambda names: json.dumps({"type": "struct", "fields": [{"name": n} for n in names]})
)
# Longer than one Java string may be, with characters of three bytes.
_LONG_STRUCT = st.integers(20_000, 40_000).map(
    lambda n: json.dumps({"type": "struct", "fields": [{"name": "€" * n}]}, ensure_ascii=False)
)
_FAMILY = st.builds(
    FamilySchema,
    NAME,
    _STRUCT,
    _STRUCT | _LONG_STRUCT,
    st.integers(0, 100),
    st.integers(0, 100),
    st.just("{}"),
    st.just("{}"),
)
SCHEMAS = st.one_of(
    st.builds(
        lambda key, value: StateSchema(2, (FamilySchema("default", key, value),)),
        _STRUCT,
        _STRUCT | _LONG_STRUCT,
    ),
    st.lists(_FAMILY, min_size=1, max_size=3).map(lambda families: StateSchema(3, tuple(families))),
)

_PUT = st.builds(Entry, st.just(Change.PUT), st.binary(max_size=40), st.binary(max_size=200))
_DELETE = st.builds(Entry, st.just(Change.DELETE), st.binary(max_size=40))
_MERGE = st.builds(Entry, st.just(Change.MERGE), st.binary(max_size=9), st.binary(max_size=9))
_RANGE = st.builds(
    Entry, st.just(Change.DELETE_RANGE), st.binary(max_size=9), st.binary(max_size=9)
)
PLAIN_ENTRIES = st.lists(_PUT | _DELETE, max_size=30).map(tuple)
TYPED_ENTRIES = st.lists(_PUT | _DELETE | _MERGE | _RANGE, max_size=30).map(tuple)
_LINEAGE = st.lists(st.builds(StateVersion, st.integers(1, 10**6), UUID), max_size=6).map(tuple)


@st.composite
def changelogs(draw: st.DrawFn) -> Changelog:
    version = draw(st.sampled_from([1, 2, 3, 4]))
    entries = draw(TYPED_ENTRIES if version in (2, 4) else PLAIN_ENTRIES)
    return Changelog(version, draw(_LINEAGE) if version in (3, 4) else (), entries)
