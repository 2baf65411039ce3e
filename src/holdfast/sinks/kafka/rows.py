"""Rows as records of Kafka. Columns are those of Spark's own Kafka sink, and a time.

``value``      string or binary; null is a tombstone. The only one that must be there
``key``        string or binary
``headers``    array of struct<key: string, value: binary>
``topic``      string; needed if the sink has no topic of its own, else not looked at
``partition``  int; null: by the key
``timestamp``  timestamp; null: the time of sending

Other columns are not sent, as Spark does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_BYTES = ("string", "binary")
_TYPES = {
    "value": _BYTES,
    "key": _BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
_NOW = 0
_PLACED: dict[str, Any] = {"topic": None, "value": None, "key": None, "partition": -1}
"""Arguments of the producer by position, and what stands for a column that is not there."""
_NAMED = ("timestamp", "headers")
_NONE: dict[str, Any] = {}

Record = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of the producer, by position and by name."""


def refuse_columns(schema: StructType, topic: str | None) -> None:
    """Everything that is wrong with the columns, in one error."""
    columns = {f.name: f.dataType.simpleString() for f in schema}
    needed = ["value"] if topic is not None else ["value", "topic"]
    problems = [f"there is no column {name!r}" for name in needed if name not in columns]
    problems += [
        f"column {name!r} is {columns[name]}, not {' or '.join(types)}"
        for name, types in _TYPES.items()
        if name in columns and columns[name] not in types and name in used(schema, topic)
    ]
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"the rows cannot be sent to Kafka:{lines}",
            hint="In the region: rows.select(key.cast('string').alias('key'), "
            "sf.to_json(sf.struct('*')).alias('value')). Without a column 'topic' give the sink "
            "one.",
        )


def used(schema: StructType, topic: str | None) -> list[str]:
    """The columns that are sent."""
    ignored = {"topic"} if topic is not None else set()
    return [name for name in schema.fieldNames() if name in _TYPES and name not in ignored]


def selected(rows: DataFrame, topic: str | None) -> DataFrame:
    """Only what is sent travels to Python."""
    return rows.select(*used(rows.schema, topic))


def record_of(topic: str, value: bytes, key: bytes | None = None, partition: int = -1) -> Record:
    """A single one."""
    return (topic, value, key, partition), _NONE


def records(rows: pa.RecordBatch, topic: str | None) -> Iterator[Record]:
    """What the producer is told to send, in order.

    By position as far as that goes: a dictionary for each row would cost as much as sending it.
    """
    columns: dict[str, Iterable[Any]] = {
        name: _values(name, rows.column(name)) for name in rows.schema.names
    }
    if topic is not None:
        columns["topic"] = repeat(topic, rows.num_rows)
    placed = (columns.get(name, repeat(lacks, rows.num_rows)) for name, lacks in _PLACED.items())
    return zip(zip(*placed, strict=True), _named(columns, rows.num_rows), strict=True)


def _named(columns: Mapping[str, Iterable[Any]], count: int) -> Iterator[dict[str, Any]]:
    names = [name for name in _NAMED if name in columns]
    if not names:
        return repeat(_NONE, count)
    values = zip(*(columns[name] for name in names), strict=True)
    return (dict(zip(names, row, strict=True)) for row in values)


def _values(name: str, column: pa.Array) -> list[Any]:
    if name in ("key", "value"):
        return _bytes(column)
    if name == "partition":
        return list(column.fill_null(_PLACED[name]).to_pylist())
    if name == "timestamp":
        return _milliseconds(column)
    if name == "headers":
        return [[(h["key"], h["value"]) for h in found or ()] for found in column.to_pylist()]
    return list(column.to_pylist())


def _bytes(column: pa.Array) -> list[Any]:
    """Text as UTF-8, without a detour over Python's strings."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_string(kind):
        column = column.cast(pa.binary())
    elif types.is_large_string(kind):
        column = column.cast(pa.large_binary())
    return list(column.to_pylist())


def _milliseconds(column: pa.Array) -> list[int]:
    import pyarrow as pa

    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return [_NOW if value is None else value // 1000 for value in micros.to_pylist()]
