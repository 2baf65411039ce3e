"""Arrays, maps, structs and variants as JSON text, for stores that have no such types.

Numbers keep every digit. What JSON has no literal for is a string: bytes in base64, dates and times
in ISO 8601 (instants in UTC, ending in Z), NaN and infinities by name.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Writer = Callable[[Any], str]
"""Turns a value, as Arrow gives it to Python, into JSON."""


def json_texts(values: pa.Array) -> pa.Array:
    """A column as JSON; null stays null."""
    import pyarrow as pa

    write = writer(values.type)
    texts = [None if value is None else write(value) for value in values.to_pylist()]
    return pa.array(texts, pa.large_string())


def is_nested(kind: pa.DataType) -> bool:
    """Whether JSON is the way to write values of this type."""
    import pyarrow as pa

    return bool(pa.types.is_nested(kind))


def writer(kind: pa.DataType) -> Writer:
    """How values of a type are written. Nulls inside are ``null``."""
    from pyarrow import types

    if _is_variant(kind):
        return _or_null(_variant)
    if types.is_struct(kind):
        return _or_null(_struct(kind))
    if types.is_map(kind):
        return _or_null(_map(kind))
    if types.is_list(kind) or types.is_large_list(kind):
        return _or_null(_list(kind))
    return _or_null(_scalar)


def _or_null(write: Writer) -> Writer:
    return lambda value: "null" if value is None else write(value)


def _struct(kind: pa.StructType) -> Writer:
    fields = [(field.name, _string(field.name) + ":", writer(field.type)) for field in kind]

    def write(value: dict[str, Any]) -> str:
        return "{" + ",".join(start + w(value[name]) for name, start, w in fields) + "}"

    return write


def _map(kind: pa.MapType) -> Writer:
    item = writer(kind.item_type)

    def write(value: list[tuple[Any, Any]]) -> str:
        return "{" + ",".join(f"{_key(key)}:{item(one)}" for key, one in value) + "}"

    return write


def _list(kind: pa.ListType) -> Writer:
    item = writer(kind.value_type)
    return lambda value: "[" + ",".join(map(item, value)) + "]"


def _is_variant(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if not pa.types.is_struct(kind) or [field.name for field in kind] != ["value", "metadata"]:
        return False
    # Spark marks its variants so; a struct of the user may have the same names.
    return (kind.field("metadata").metadata or {}).get(b"variant") == b"true"


def _variant(value: dict[str, bytes]) -> str:
    from pyspark.sql.types import VariantVal

    return str(VariantVal(value["value"], value["metadata"]).toJson("UTC"))


def _key(value: Any) -> str:
    text = _scalar(value)
    return text if text.startswith('"') else f'"{text}"'


def _scalar(value: Any) -> str:
    for kind, write in _SCALARS:
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        return _string(value.isoformat())
    return _string(value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z")


def _duration(value: timedelta) -> str:
    sign = "-" if value < timedelta(0) else ""
    micros = abs(value) // timedelta(microseconds=1)
    return f'"{sign}PT{micros // 1_000_000}.{micros % 1_000_000:06d}S"'


# The first that matches: a bool is an int, a datetime is a date.
_SCALARS: tuple[tuple[type, Writer], ...] = (
    (str, _string),
    (bool, lambda value: "true" if value else "false"),
    (int, str),
    (float, _float),
    (Decimal, lambda value: format(value, "f")),
    (bytes, lambda value: _string(base64.b64encode(value).decode())),
    (datetime, _time),
    (date, lambda value: _string(value.isoformat())),
    (time, lambda value: _string(value.isoformat())),
    (timedelta, _duration),
)
