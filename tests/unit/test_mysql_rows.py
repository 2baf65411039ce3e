"""Rows as SQL for MariaDB and MySQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from holdfast.errors import UsageError
from holdfast.sinks.mysql.rows import insert
from holdfast.sinks.tables import table

PACKET = 1 << 24


def statements(rows: pa.RecordBatch, key: str | None = None, packet: int = PACKET) -> list[str]:
    found = insert(table("t", key), rows.schema.names).statements(rows, packet)
    return [statement.decode() for statement in found]


def literals(column: pa.Array) -> str:
    (statement,) = statements(pa.record_batch({"c": column}))
    return statement.removeprefix("INSERT INTO `t` (`c`) VALUES ")


def test_rows_are_appended_in_one_statement() -> None:
    rows = pa.record_batch({"a": [1, None], "b`": ["x", "y"]})
    assert statements(rows) == ["INSERT INTO `t` (`a`,`b```) VALUES (1,'x'),(NULL,'y')"]


def test_a_slice_of_rows_is_written_without_the_others() -> None:
    rows = pa.record_batch({"a": [1, 2, 3], "b": ["x", None, "z"]}).slice(1, 1)
    assert statements(rows) == ["INSERT INTO `t` (`a`,`b`) VALUES (2,NULL)"]


def test_with_a_key_other_columns_are_replaced() -> None:
    rows = pa.record_batch({"k": [1], "a": [2], "b": [3]})
    (statement,) = statements(rows, "k")
    assert statement.endswith("(1,2,3) ON DUPLICATE KEY UPDATE `a`=VALUES(`a`),`b`=VALUES(`b`)")


def test_rows_that_are_all_key_replace_themselves() -> None:
    (statement,) = statements(pa.record_batch({"k": [1]}), "k")
    assert statement.endswith("(1) ON DUPLICATE KEY UPDATE `k`=VALUES(`k`)")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, None, False]), "(1),(NULL),(0)"),
        (pa.array([-(2**63)], pa.int64()), "(-9223372036854775808)"),
        (pa.array([0.1], pa.float32()), "(0.10000000149011612)"),
        (pa.array([1e300, -0.5]), "(1e+300),(-0.5)"),
        (pa.array([Decimal("1.50"), None]), "('1.50'),(NULL)"),
        (pa.array(["it's", "back\\slash", "", None]), r"('it\'s'),('back\\slash'),(''),(NULL)"),
        (pa.array(["\n\0😀"]), "('\n\0😀')"),
        (pa.array([b"'\\"]), r"(_binary'\'\\')"),
        (pa.array([dt.date(1, 2, 3)]), "('0001-02-03')"),
        (
            pa.array([dt.datetime(2024, 1, 2, 3)], pa.timestamp("us")),
            "('2024-01-02 03:00:00.000000')",
        ),
        (pa.array([dt.time(1, 2, 3)], pa.time64("ns")), "('01:02:03.000000')"),
        (pa.array([["a'b"], None]), """('["a\\'b"]'),(NULL)"""),
        (pa.nulls(1), "(NULL)"),
    ],
)
def test_every_type_has_its_literal(column: pa.Array, expected: str) -> None:
    assert literals(column) == expected


def test_an_instant_is_written_in_utc_whatever_its_zone() -> None:
    noon = dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)
    for zone in ("UTC", "America/New_York", "Asia/Kolkata"):
        found = literals(pa.array([noon], pa.timestamp("us", zone)))
        assert found == "('2024-07-01 12:00:00.000000')"


def test_bytes_that_are_no_characters_are_replaced() -> None:
    wrong = pa.Array.from_buffers(
        pa.string(), 1, pa.array([b"a\xffb"], pa.binary()).buffers(), null_count=0
    )
    assert literals(wrong) == "('a\N{REPLACEMENT CHARACTER}b')"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="column 'c' has NaN or infinity"):
        literals(pa.array([1.0, None, value]))
    assert literals(pa.array([None], pa.float64())) == "(NULL)"


def test_statements_keep_to_the_size_of_a_packet() -> None:
    rows = pa.record_batch({"a": list(range(1000)), "b": ["x" * 100] * 1000})
    found = statements(rows, packet=5000)
    assert all(len(statement) <= 5000 for statement in found)
    assert len(found) > 20
    joined = ",".join(statement.split("VALUES ")[1] for statement in found)
    assert joined == ",".join(f"({n},'{'x' * 100}')" for n in range(1000))


def test_a_row_larger_than_a_packet_is_refused() -> None:
    rows = pa.record_batch({"b": ["small", "x" * 5000]})
    with pytest.raises(UsageError, match="larger than the server takes"):
        statements(rows, packet=5000)
