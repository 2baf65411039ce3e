"""Types of MariaDB and MySQL for those of Spark."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import types as spark

from holdfast.errors import UsageError
from holdfast.sinks.mysql.types import Column, column_types, fits


def schema(**columns: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, kind) for name, kind in columns.items()])


def column(full: str, precision: int = 0, scale: int = 0, characters: str | None = None) -> Column:
    family = re.split(r"[( ]", full)[0]
    return Column("c", family, full, True, False, characters, None, precision, scale)


def test_every_type_has_a_column() -> None:
    found = column_types(
        schema(
            yes=spark.BooleanType(),
            byte=spark.ByteType(),
            short=spark.ShortType(),
            int=spark.IntegerType(),
            long=spark.LongType(),
            float=spark.FloatType(),
            decimal=spark.DecimalType(38, 18),
            text=spark.StringType(),
            short_text=spark.VarcharType(7),
            fixed=spark.CharType(3),
            bytes=spark.BinaryType(),
            day=spark.DateType(),
            at=spark.TimestampType(),
            wall=spark.TimestampNTZType(),
            time=spark.TimeType(),
            list=spark.ArrayType(spark.MapType(spark.StringType(), spark.VariantType())),
        ),
        (),
    )
    assert list(found.values()) == [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "DOUBLE",
        "DECIMAL(38,18)",
        "LONGTEXT",
        "VARCHAR(7)",
        "VARCHAR(3)",
        "LONGBLOB",
        "DATE",
        "DATETIME(6)",
        "DATETIME(6)",
        "TIME(6)",
        "JSON",
    ]


def test_strings_of_a_key_share_the_room_of_an_index() -> None:
    four = {name: spark.StringType() for name in "abcd"}
    assert column_types(schema(**four), "a")["a"] == "VARCHAR(255)"
    assert column_types(schema(**four), "abcd")["a"] == "VARCHAR(192)"
    assert column_types(schema(b=spark.BinaryType()), "b")["b"] == "VARBINARY(255)"


@pytest.mark.parametrize(
    "kind",
    [
        spark.DayTimeIntervalType(),
        spark.YearMonthIntervalType(),
        spark.CalendarIntervalType(),
        spark.NullType(),
        spark.ArrayType(spark.DayTimeIntervalType()),
        spark.StructType([spark.StructField("x", spark.YearMonthIntervalType())]),
    ],
)
def test_types_without_a_counterpart_are_refused_all_at_once(kind: spark.DataType) -> None:
    with pytest.raises(UsageError, match=r"'odd'(.|\n)*'other'"):
        column_types(schema(odd=kind, good=spark.LongType(), other=kind), ())


def test_a_nested_value_cannot_be_a_key() -> None:
    with pytest.raises(UsageError, match="cannot be a key"):
        column_types(schema(k=spark.ArrayType(spark.LongType())), ("k",))


def test_decimals_of_mysql_have_fewer_digits_behind_the_point() -> None:
    fine = schema(d=spark.DecimalType(38, 31))
    column_types(fine, ())
    with pytest.raises(UsageError, match="at most 30 digits"):
        column_types(fine, (), max_scale=30)


@pytest.mark.parametrize(
    ("kind", "there", "expected"),
    [
        (spark.LongType(), column("bigint(20)", 19), True),
        (spark.LongType(), column("bigint(20) unsigned", 20), False),
        (spark.LongType(), column("int(11)", 10), False),
        (spark.LongType(), column("decimal(19,0)", 19), True),
        (spark.LongType(), column("double", 22), False),
        (spark.IntegerType(), column("double", 22), True),
        (spark.IntegerType(), column("mediumint(9)", 7), False),
        (spark.BooleanType(), column("tinyint(1)", 3), True),
        (spark.BooleanType(), column("bit(1)", 1), True),
        (spark.DoubleType(), column("float", 12), False),
        (spark.FloatType(), column("float", 12), True),
        (spark.DecimalType(10, 2), column("decimal(10,2)", 10, 2), True),
        (spark.DecimalType(10, 2), column("decimal(12,4)", 12, 4), True),
        (spark.DecimalType(10, 2), column("decimal(11,4)", 11, 4), False),
        (spark.DecimalType(10, 2), column("decimal(12,1)", 12, 1), False),
        (spark.StringType(), column("varchar(20)", characters="utf8mb4"), True),
        (spark.StringType(), column("varchar(20)", characters="latin1"), False),
        (spark.StringType(), column("char(20)", characters="utf8mb4"), False),
        (spark.StringType(), column("bigint(20)", 19), False),
        (spark.CharType(3), column("char(3)", characters="utf8mb4"), True),
        (spark.BinaryType(), column("longblob"), True),
        (spark.BinaryType(), column("binary(4)"), False),
        (spark.BinaryType(), column("longtext", characters="utf8mb4"), False),
        (spark.TimestampType(), column("datetime(6)", 6), True),
        (spark.TimestampType(), column("timestamp(6)", 6), True),
        (spark.TimestampType(), column("datetime", 0), False),
        (spark.TimestampNTZType(), column("timestamp(6)", 6), False),
        (spark.DateType(), column("date"), True),
        (spark.DateType(), column("time"), False),
        (spark.ArrayType(spark.LongType()), column("longtext", characters="utf8mb4"), True),
        (spark.VariantType(), column("json"), True),
        (spark.VariantType(), column("longblob"), False),
    ],
)
def test_a_column_fits_if_it_takes_every_value(
    kind: spark.DataType, there: Column, expected: bool
) -> None:
    assert fits(kind, there) is expected
