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

from collections.abc import Iterator
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
_ANY_PARTITION = -1
_NOW = 0

Record = dict[str, Any]
"""Arguments of the producer."""


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


def records(rows: pa.RecordBatch, topic: str | None) -> Iterator[Record]:
    """What the producer is told to send, in order."""
    columns = {name: _values(name, rows.column(name)) for name in rows.schema.names}
    if topic is not None:
        columns["topic"] = [topic] * rows.num_rows
    names = tuple(columns)
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(names, values, strict=True))


def _values(name: str, column: pa.Array) -> list[Any]:
    if name in ("key", "value"):
        return _bytes(column)
    if name == "partition":
        return list(column.fill_null(_ANY_PARTITION).to_pylist())
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
