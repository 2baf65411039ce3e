"""Rows as SQL: Arrow columns become literals, and those become statements of many rows.

All of it happens column by column inside Arrow; only nested values pass through Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.sinks.json_text import json_texts
from holdfast.sinks.tables import Table, quote

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT_SIZE = 1 << 20
"""Bytes of a statement. Larger ones are not faster, and the server keeps each whole."""

_SPARE = 1024
"""Bytes of a packet that are not the statement's."""


@dataclass(frozen=True, slots=True)
class Insert:
    """``INSERT`` for rows of these columns."""

    head: bytes
    tail: bytes

    def statements(self, rows: pa.RecordBatch, packet: int) -> Iterator[bytes]:
        """As few as possible, none larger than the server's ``max_allowed_packet``."""
        import numpy as np

        texts = _tuples(rows)
        # Each row's text ends with a comma, so rows that lie next to each other are a list.
        _, ends, data = texts.buffers()
        offsets = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        memory = memoryview(data)
        most = packet - len(self.head) - len(self.tail) - _SPARE
        first = 0
        while first < len(texts):
            begin = int(offsets[first])
            after = int(np.searchsorted(offsets, begin + min(most, _TEXT_SIZE), "right")) - 1
            after = max(after, first + 1)
            end = int(offsets[after])
            if end - begin > most:
                raise _too_large(end - begin, packet)
            yield b"".join((self.head, memory[begin : end - 1], self.tail))
            first = after


def insert(target: Table, columns: Sequence[str]) -> Insert:
    """Append, or replace the values of rows that are there if the table has a key."""
    names = ",".join(_name(column) for column in columns)
    head = f"INSERT INTO {target.quoted('`')} ({names}) VALUES "
    return Insert(head.encode(), _replacing(target.key, columns).encode())


def _replacing(key: Sequence[str], columns: Sequence[str]) -> str:
    if not key:
        return ""
    changing = [column for column in columns if column not in key] or [key[0]]
    sets = ",".join(f"{_name(column)}=VALUES({_name(column)})" for column in changing)
    return f" ON DUPLICATE KEY UPDATE {sets}"


def _name(column: str) -> str:
    return quote(column, "`")


def _too_large(size: int, packet: int) -> UsageError:
    return UsageError(
        f"a row of {size:,} bytes is larger than the server takes",
        hint="Raise `max_allowed_packet` of the server.",
        max_allowed_packet=packet,
    )


def _tuples(rows: pa.RecordBatch) -> pa.LargeBinaryArray:
    literals = [_literals(rows.column(at), name) for at, name in enumerate(rows.schema.names)]
    separated = [part for literal in literals for part in (b",", literal)][1:]
    return _joined(b"(", *separated, b"),", null="NULL")


def _joined(*parts: Any, null: str | None = None) -> pa.LargeBinaryArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    binary = pa.large_binary()
    arrays = [pa.scalar(part, binary) if isinstance(part, bytes) else part for part in parts]
    nulls = {"null_handling": "replace", "null_replacement": null} if null else {}
    return pc.binary_join_element_wise(*arrays, pa.scalar(b"", binary), **nulls)


def _literals(column: pa.Array, name: str) -> pa.LargeBinaryArray:
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_nested(kind):
        return _quoted(pa.array(json_texts(column), pa.large_string()))
    if types.is_string(kind) or types.is_large_string(kind):
        return _quoted(_valid(column))
    if types.is_binary(kind) or types.is_large_binary(kind):
        return _quoted(column, b"_binary'")
    if types.is_boolean(kind):
        return _text(column.cast(pa.int8()))
    if types.is_floating(kind):
        _refuse_not_finite(column, name)
        # All digits of the double: what is read as a double and cut to a float is the same float.
        return _text(column.cast(pa.float64()))
    if types.is_integer(kind) or types.is_null(kind):
        return _text(column)
    # Decimals too: in quotes the server reads all digits, also behind an exponent.
    return _quoted(_without_zone(column).cast(pa.string()))


def _text(column: pa.Array) -> pa.LargeBinaryArray:
    import pyarrow as pa

    return column.cast(pa.string()).cast(pa.large_binary())


def _quoted(column: pa.Array, begin: bytes = b"'") -> pa.LargeBinaryArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    escaped = column.cast(pa.large_binary())
    for special in (b"\\", b"'"):
        escaped = pc.replace_substring(escaped, pattern=special, replacement=b"\\" + special)
    return _joined(begin, escaped, b"'")


def _without_zone(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    from pyarrow import types

    if types.is_time64(column.type):
        return column.cast(pa.time64("us"))
    if types.is_timestamp(column.type):
        # An instant's number counts from 1970 in UTC, whatever zone it is shown in.
        return column.cast(pa.int64()).cast(pa.timestamp(column.type.unit))
    return column


def _valid(column: pa.Array) -> pa.Array:
    """Bytes that are no UTF-8, which Spark lets pass, become U+FFFD."""
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        found = column.cast(pa.binary()).to_pylist()
        return pa.array([value and value.decode(errors="replace") for value in found], pa.string())
    return column


def _refuse_not_finite(column: pa.Array, name: str) -> None:
    import pyarrow.compute as pc

    if pc.all(pc.is_finite(column)).as_py() is False:
        raise UsageError(
            f"column {name!r} has NaN or infinity, which MariaDB and MySQL cannot hold",
            hint=f"In the region: F.when(~F.isnan({name!r}), F.col({name!r})), "
            "or cast the column to a string.",
        )
