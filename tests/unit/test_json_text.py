"""Nested values as JSON: every digit is kept, and what has no literal is a string."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.sinks.json_text import json_texts

ZONE = pa.timestamp("us", "America/St_Johns")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (Decimal("12345678901234567890.10"), pa.decimal128(38, 2), "12345678901234567890.10"),
        (2**63 - 1, pa.int64(), "9223372036854775807"),
        (0.1, pa.float64(), "0.1"),
        (float("nan"), pa.float64(), '"NaN"'),
        (float("-inf"), pa.float64(), '"-Infinity"'),
        (True, pa.bool_(), "true"),
        ('é"\\\n', pa.string(), '"é\\"\\\\\\n"'),
        (b"\xff\x00", pa.binary(), '"/wA="'),
        (date(2024, 1, 2), pa.date32(), '"2024-01-02"'),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), ZONE, '"2024-01-02T03:00:00Z"'),
        (datetime(2024, 1, 2, 3, 4, 5, 6), pa.timestamp("us"), '"2024-01-02T03:04:05.000006"'),
        (time(12, 30), pa.time64("ns"), '"12:30:00"'),
        (time(12, 30, 0, 7), pa.time64("us"), '"12:30:00.000007"'),
        (-timedelta(seconds=1.5), pa.duration("us"), '"-PT1.500000S"'),
        (None, pa.int64(), "null"),
    ],
)
def test_values_keep_what_they_say(value: Any, kind: pa.DataType, text: str) -> None:
    assert json_texts(pa.array([[value]], pa.list_(kind))).to_pylist() == [f"[{text}]"]


def test_structs_maps_and_lists_nest() -> None:
    inner = pa.map_(pa.int32(), pa.list_(pa.string()))
    kind = pa.struct([pa.field('a"', inner), pa.field("b", pa.int64())])
    values = pa.array([{'a"': [(1, ["x", None]), (2, None)], "b": None}, None], kind)
    assert json_texts(values).to_pylist() == ['{"a\\"":{"1":["x",null],"2":null},"b":null}', None]


def test_a_struct_with_the_names_of_a_variant_is_a_struct() -> None:
    values = pa.array([{"value": b"\x01", "metadata": b"\x02"}])
    assert json_texts(values).to_pylist() == ['{"value":"AQ==","metadata":"Ag=="}']
