"""The PostgreSQL sink on a real server: every type, odd texts and odd names arrive unchanged."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import UsageError
from holdfast.sinks.distributed import Distributed
from holdfast.sinks.postgres.sink import PostgresSink, postgres
from tests.services.epochs import epoch, written
from tests.services.postgres_server import PostgresServer

TYPES = """
SELECT 1 AS n, true AS flag, CAST(-128 AS byte) AS tiny, CAST(-32768 AS short) AS small,
       -2147483648 AS whole, -9223372036854775808L AS big, CAST(0.1 AS float) AS single,
       CAST('NaN' AS float) AS strange, CAST('-Infinity' AS double) AS endless, 4.9E-324D AS least,
       CAST('12345678901234567890.123456789012345678' AS decimal(38, 18)) AS exact,
       CAST(0.000001 AS decimal(20, 10)) AS little, 'žluťoučký 🐎' AS text, x'00FF5C78' AS bytes,
       DATE'0001-01-01' AS first_day, DATE'9999-12-31' AS last_day,
       TIMESTAMP'2024-03-31 02:30:00.123456+05:30' AS instant,
       TIMESTAMP_NTZ'2024-03-31 02:30:00.000001' AS wall,
       INTERVAL '-3 04:05:06.000007' DAY TO SECOND AS took,
       CAST('abc' AS char(5)) AS fixed, CAST('abc' AS varchar(5)) AS bounded,
       array(1.50BD, NULL) AS list, map(DATE'2024-01-02', x'FF') AS dictionary,
       named_struct('a', TIMESTAMP'2024-01-01 00:00:00Z', 'b"', array('x\\\\', ''),
                    'c', CAST('NaN' AS double),
                    'd', named_struct('value', x'01', 'metadata', x'02')) AS record,
       parse_json('{"a": [1, "é", null, 1.5]}') AS anything, array(parse_json('"v"')) AS many
"""
EXPECTED: dict[str, Any] = {
    "n": 1,
    "flag": True,
    "tiny": -128,
    "small": -32768,
    "whole": -(2**31),
    "big": -(2**63),
    "endless": -math.inf,
    "least": 5e-324,
    "exact": Decimal("12345678901234567890.123456789012345678"),
    "little": Decimal("0.0000010000"),
    "text": "žluťoučký 🐎",
    "bytes": b"\x00\xff\\x",
    "first_day": date(1, 1, 1),
    "last_day": date(9999, 12, 31),
    "instant": datetime(2024, 3, 30, 21, 0, 0, 123456, UTC),
    "wall": datetime(2024, 3, 31, 2, 30, 0, 1),
    "took": -timedelta(days=3, hours=4, minutes=5, seconds=6, microseconds=7),
    "fixed": "abc",
    "bounded": "abc",
    "list": [1.5, None],
    "dictionary": {"2024-01-02": "/w=="},
    "record": {
        "a": "2024-01-01T00:00:00Z",
        'b"': ["x\\", ""],
        "c": "NaN",
        "d": {"value": "AQ==", "metadata": "Ag=="},
    },
    "anything": {"a": [1, "é", None, 1.5]},
    "many": ["v"],
}
TEXTS = [
    *("", " ", "\\N", "\\.", "a\n\\.\nb", "NULL", "null", "'", '"', '""', "\\", "\\\\", '\\"'),
    *("{1,2}", "{", "}", ",", "a,b", "\t", "\r", "\r\n", "\n", "%s", "%", "$1", "\x01", "\x7f"),
    *("é", "🐎", "\u2028", "\ufeff", "x" * 100_000, "٣", "a\u0301", "\\x00"),
]
NAMES = [
    "a b",
    'quo"te',
    "do.t",
    "ünï",
    "SELECT",
    "UPPER",
    "upper",
    "per%cent",
    "%s",
    "back\\sl",
    "ti`ck",
]


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


def read(server: PostgresServer, url: str, query: str) -> list[tuple[Any, ...]]:
    return server.run("SET TimeZone = 'UTC'", query, url=url)


def sink(url: str, name: str | tuple[str, ...] = "out", **options: Any) -> Distributed:
    made = postgres(url, name, **options)
    assert isinstance(made, PostgresSink)
    return Distributed(made)


@pytest.mark.parametrize("key", [None, "n"])
def test_every_type_arrives_by_value_whatever_the_zone_of_the_session(
    postgres: PostgresServer, url: str, spark: SparkSession, tmp_path: Path, key: str | None
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    full = session.sql(TYPES)
    nulls = session.sql("SELECT 2 AS n")
    rows = full.unionByName(nulls, allowMissingColumns=True)
    written(sink(url, key=key, create=True), epoch(tmp_path, {0: rows.coalesce(1)}))
    names = ", ".join(full.columns)
    found, empty = read(postgres, url, f"SELECT {names} FROM out ORDER BY n")
    values = dict(zip(full.columns, found, strict=True))
    single, strange = values.pop("single"), values.pop("strange")
    assert math.isclose(single, 0.1, rel_tol=1e-6)
    assert math.isnan(strange)
    assert values == EXPECTED
    assert empty == (2, *[None] * (len(full.columns) - 1))


@pytest.mark.parametrize("keyed", [False, True])
def test_every_text_arrives_as_it_was(
    postgres: PostgresServer, url: str, spark: SparkSession, tmp_path: Path, keyed: bool
) -> None:
    rows = [(number, text, None) for number, text in enumerate(TEXTS)]
    frame = spark.createDataFrame(rows, "n long, text string, nothing string").coalesce(1)
    written(sink(url, key="n" if keyed else None, create=True), epoch(tmp_path, {0: frame}))
    assert read(postgres, url, "SELECT n, text, nothing FROM out ORDER BY n") == rows


@pytest.mark.parametrize("keyed", [False, True])
def test_names_are_taken_as_they_are(
    postgres: PostgresServer, url: str, spark: SparkSession, tmp_path: Path, keyed: bool
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    frame = session.createDataFrame([tuple(range(len(NAMES)))], NAMES)
    postgres.run('CREATE SCHEMA "My.Schema%s"', url=url)
    key = (NAMES[0], NAMES[7]) if keyed else None
    into = sink(url, ("My.Schema%s", 'ta"ble'), key=key, create=True)
    for checkpoint in (1, 2):
        written(into, epoch(tmp_path, {0: frame}, checkpoint))
    found = read(postgres, url, 'SELECT * FROM "My.Schema%s"."ta""ble"')
    assert found == [tuple(range(len(NAMES)))] * (1 if keyed else 2)


def test_a_text_with_nul_is_refused_clearly(url: str, spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a\0b",)], "text string")
    with pytest.raises(Exception, match="cannot hold the character NUL"):
        written(sink(url, create=True), epoch(tmp_path, {0: frame}))


@pytest.mark.parametrize("key", [None, "id"])
def test_wider_columns_and_those_that_parse_text_take_values_unchanged(
    postgres: PostgresServer, url: str, spark: SparkSession, tmp_path: Path, key: str | None
) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('well', 'ill')",
        "CREATE DOMAIN small AS numeric(20, 5)",
        "CREATE TABLE out (id uuid PRIMARY KEY, n bigint, f double precision, d small, m mood, "
        "c char(3), j json, k jsonb, more text DEFAULT 'x')",
        url=url,
    )
    uid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    frame = spark.sql(
        f"SELECT '{uid}' AS id, 7 AS n, CAST(0.5 AS float) AS f, 1.50BD AS d, 'ill' AS m, "
        "'ab' AS c, named_struct('a', 1) AS j, '[1]' AS k"
    )
    written(sink(url, key=key), epoch(tmp_path, {0: frame}))
    found = read(postgres, url, "SELECT id::text, n, f, d, m::text, c, j, k, more FROM out")
    assert found == [(uid, 7, 0.5, Decimal("1.50000"), "ill", "ab ", {"a": 1}, [1], "x")]


@pytest.mark.parametrize(
    "select",
    ["INTERVAL '1-2' YEAR TO MONTH AS c", "NULL AS c", "map(named_struct('a', 1), 2) AS c"],
)
def test_types_without_a_place_are_refused_before_the_first_row(
    url: str, spark: SparkSession, select: str
) -> None:
    with pytest.raises(UsageError, match="PostgreSQL has no type for some columns: 'c' is"):
        sink(url, create=True).check(spark, spark.sql(f"SELECT {select}").schema)


def test_names_that_the_server_would_cut_off_are_refused(url: str, spark: SparkSession) -> None:
    rows = spark.range(1).withColumnRenamed("id", "ä" * 32)
    with pytest.raises(UsageError, match="at most 63 bytes"):
        sink(url, create=True).check(spark, rows.schema)
