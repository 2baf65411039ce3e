"""Arrow batches as PostgreSQL reads them: CSV for ``COPY``, array literals for ``INSERT``.

All but nested columns are converted by Arrow, a column at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.sinks.json_text import is_nested, json_texts

if TYPE_CHECKING:
    import pyarrow as pa

_CSV_ROWS = 16_384


def as_csv(rows: pa.RecordBatch) -> bytes:
    """Without a header. Null is nothing at all, the empty text is ``""``."""
    import pyarrow as pa
    import pyarrow.csv

    columns = [plain(column) for column in rows.columns]
    out = pa.BufferOutputStream()
    # Names do not go into the file, and need not differ here.
    pyarrow.csv.write_csv(
        pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))]),
        out,
        pyarrow.csv.WriteOptions(
            include_header=False, quoting_style="needed", batch_size=_CSV_ROWS
        ),
    )
    return bytes(out.getvalue())


def as_array_literal(values: pa.Array) -> str:
    """``{1,2,NULL}``: a whole column as one value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = plain(values)
    if _is_text(column.type):
        column = _quoted(column)
    texts = pc.fill_null(column.cast(pa.large_string()), "NULL")
    all_in_one = pa.ListArray.from_arrays([0, len(texts)], texts)
    joined = pc.binary_join(all_in_one, pa.scalar(",", pa.large_string()))
    return "{" + str(joined[0]) + "}"


def plain(values: pa.Array) -> pa.Array:
    """The same column of a type whose text, as Arrow writes it, is what PostgreSQL reads."""
    import pyarrow as pa
    from pyarrow import types

    kind = values.type
    if is_nested(kind):
        return json_texts(values)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return hex_texts(values)
    if types.is_float32(kind):
        # The digits of a double name the same value, also if the column is a double.
        return values.cast(pa.float64())
    if types.is_timestamp(kind) and kind.tz is not None:
        return values.cast(pa.timestamp(kind.unit))  # in UTC, as is the session
    if types.is_duration(kind):
        return _followed_by(values.cast(pa.int64()), " microseconds")
    return values


def hex_texts(values: pa.Array) -> pa.Array:
    r"""Bytes as ``\x00ff``. The buffer that holds them all is converted at once."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    column = values.cast(pa.large_binary())
    if len(column) == 0:
        return pa.array([], pa.large_string())
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    written = data.slice(ends[0], ends[-1] - ends[0]).to_pybytes().hex() if data else ""
    digits = pa.LargeStringArray.from_buffers(
        len(column),
        pa.py_buffer(((ends - ends[0]) * 2).tobytes()),
        pa.py_buffer(written.encode()),
    )
    texts = pc.binary_join_element_wise(pa.scalar("\\x", pa.large_string()), digits, _nothing())
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.large_string()))


def _quoted(texts: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = texts.cast(pa.large_string())
    for special in ("\\", '"'):
        column = pc.replace_substring(column, special, f"\\{special}")
    mark = pa.scalar('"', pa.large_string())
    return pc.binary_join_element_wise(mark, column, mark, _nothing())


def _followed_by(values: pa.Array, unit: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = values.cast(pa.large_string())
    return pc.binary_join_element_wise(texts, pa.scalar(unit, pa.large_string()), _nothing())


def _nothing() -> pa.Scalar:
    import pyarrow as pa

    return pa.scalar("", pa.large_string())


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))
