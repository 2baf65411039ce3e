"""Rows as database drivers take them: Arrow columns become lists of Python values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.sinks.json_text import json_texts

if TYPE_CHECKING:
    import pyarrow as pa

Values = list[Any]


def python_values(column: pa.Array) -> Values:
    """Python's own types: decimals, dates, datetimes (instants in UTC); nested ones as JSON."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_nested(kind):
        return list(json_texts(column).to_pylist())
    if types.is_string(kind) or types.is_large_string(kind):
        return strings(column)
    if types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if types.is_time64(kind):
        column = column.cast(pa.time64("us"))
    return list(column.to_pylist())


def text_values(column: pa.Array) -> Values:
    """Numbers, strings and bytes only: what a store without further types can hold."""
    from pyarrow import types

    kind = column.type
    if types.is_decimal(kind):
        return decimals(column)
    return times(column) if types.is_temporal(kind) else python_values(column)


def strings(column: pa.Array) -> Values:
    """Bytes that are no UTF-8, which Spark lets pass, become U+FFFD."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        found = column.cast(pa.binary()).to_pylist()
        return [value and value.decode(errors="replace") for value in found]


def times(column: pa.Array) -> Values:
    """``2026-01-31``, ``12:30:00.000000``, ``2026-01-31 12:30:00.000000``; instants in UTC, with Z.

    Texts of one column sort as the times do, within the years 0 to 9999.
    """
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if types.is_time64(kind):
        column = column.cast(pa.time64("us"))
    return list(column.cast(pa.string()).to_pylist())


def decimals(column: pa.Array) -> Values:
    """All digits, never with an exponent."""
    import pyarrow as pa

    if column.type.scale <= 6:  # Arrow writes exponents only for smaller numbers
        return list(column.cast(pa.string()).to_pylist())
    return [None if value is None else format(value, "f") for value in column.to_pylist()]
