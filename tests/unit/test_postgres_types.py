"""Which columns take the values of which Spark types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from holdfast.errors import UsageError
from holdfast.sinks.postgres.rows import as_array_literal, as_csv, hex_texts
from holdfast.sinks.postgres.session import Server
from holdfast.sinks.postgres.types import Column, column_type, fits


def column(kind: str, modifier: int = -1, is_enum: bool = False) -> Column:
    return Column("c", kind, kind, kind, is_enum, modifier, True, False)


def numeric(precision: int, scale: int) -> Column:
    return column("numeric", (precision << 16 | scale & 0x7FF) + 4)


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        (t.IntegerType(), column("int8")),
        (t.ByteType(), column("int2")),
        (t.LongType(), column("numeric")),
        (t.LongType(), numeric(19, 0)),
        (t.FloatType(), column("float8")),
        (t.DecimalType(10, 2), numeric(11, 3)),
        (t.StringType(), column("varchar", 14)),
        (t.StringType(), column("uuid")),
        (t.StringType(), column("mood", is_enum=True)),
        (t.VarcharType(10), column("varchar", 14)),
        (t.VarcharType(10), column("text")),
        (t.TimestampType(), column("timestamptz", 6)),
        (t.ArrayType(t.LongType()), column("json")),
        (t.VariantType(), column("jsonb")),
    ],
)
def test_a_column_that_keeps_every_value_fits(kind: t.DataType, there: Column) -> None:
    assert fits(kind, there)


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        (t.LongType(), column("int4")),
        (t.LongType(), column("float8")),
        (t.LongType(), numeric(18, 0)),
        (t.DoubleType(), column("float4")),
        (t.DoubleType(), column("numeric")),
        (t.DecimalType(10, 2), numeric(10, 3)),
        (t.DecimalType(10, 2), numeric(12, 1)),
        (t.IntegerType(), numeric(10, -2)),
        (t.VarcharType(11), column("varchar", 14)),
        (t.TimestampType(), column("timestamp")),
        (t.TimestampNTZType(), column("timestamptz")),
        (t.TimestampType(), column("timestamptz", 3)),
        (t.IntegerType(), column("text")),
        (t.BinaryType(), column("text")),
        (t.IntegerType(), Column("c", "int4", "int4", "int4", False, -1, True, True)),
    ],
)
def test_a_column_that_would_change_or_never_take_a_value_does_not_fit(
    kind: t.DataType, there: Column
) -> None:
    assert not fits(kind, there)


@pytest.mark.parametrize(
    "kind",
    [
        t.NullType(),
        t.YearMonthIntervalType(),
        t.ArrayType(t.NullType()),
        t.StructType([t.StructField("a", t.YearMonthIntervalType())]),
        t.MapType(t.ArrayType(t.LongType()), t.LongType()),
    ],
)
def test_types_without_a_good_place_have_none(kind: t.DataType) -> None:
    assert column_type(kind) is None


def test_null_and_the_empty_text_differ_in_csv() -> None:
    rows = pa.RecordBatch.from_pydict({"a": ["", None, 'x"y'], "b": pa.array([1, 2, None])})
    assert as_csv(rows) == b'"",1\n,2\n"x""y",\n'


def test_array_literals_escape_what_the_server_would_take_for_syntax() -> None:
    assert as_array_literal(pa.array(['a"b', "\\", None, "NULL", ""])) == (
        '{"a\\"b","\\\\",NULL,"NULL",""}'
    )
    assert as_array_literal(pa.array([1.5, None, float("nan")])) == "{1.5,NULL,nan}"


def test_bytes_become_hexadecimal_also_of_a_slice() -> None:
    values = pa.array([b"zz", b"\x00\xff", None, b"", b"a"])
    assert hex_texts(values).to_pylist()[1:] == ["\\x00ff", None, "\\x", "\\x61"]
    assert hex_texts(values[1:3]).to_pylist() == ["\\x00ff", None]
    assert hex_texts(values[:0]).to_pylist() == []


def test_the_address_of_a_database_is_told_without_its_password() -> None:
    pytest.importorskip("psycopg")
    server = Server("postgresql://me:hunter2@host:5433/db")
    assert server.text == "database db at host:5433"
    assert "hunter2" not in repr(server)
    with pytest.raises(UsageError) as refused:
        _ = Server("host=x password=hunter2 what").text
    assert "hunter2" not in str(refused.value)
