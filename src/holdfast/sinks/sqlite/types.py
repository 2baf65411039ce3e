"""Which column of SQLite holds which type of Spark.

    boolean, byte … long        INTEGER
    float, double               REAL; NaN becomes NULL, as SQLite itself does it
    decimal                     TEXT, all digits
    string, char, varchar       TEXT
    binary                      BLOB
    date, time                  TEXT, 2026-01-31 and 12:30:00.000000
    timestamp                   TEXT in UTC, 2026-01-31 12:30:00.000000Z
    timestamp_ntz               TEXT, 2026-01-31 12:30:00.000000
    array, map, struct          TEXT, JSON
    variant                     TEXT, JSON

A column that exists may have any declared type whose affinity leaves these values as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.sinks.tables import Table

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True, slots=True)
class Storage:
    """What a column is declared as, and which affinities do no harm to its values."""

    declared: str
    affinities: frozenset[str]


# NUMERIC turns texts that look like numbers into numbers; texts of times and JSON objects never do.
_INTEGER = Storage("INTEGER", frozenset({"INTEGER", "NUMERIC", "BLOB"}))
_REAL = Storage("REAL", frozenset({"REAL", "NUMERIC", "BLOB"}))
_TEXT = Storage("TEXT", frozenset({"TEXT", "BLOB"}))
_TIME = Storage("TEXT", frozenset({"TEXT", "NUMERIC", "BLOB"}))
_JSON = Storage("TEXT", frozenset({"TEXT", "NUMERIC", "BLOB"}))
_BLOB = Storage("BLOB", frozenset({"BLOB", "STRICT BLOB"}))


def storage_of(kind: DataType) -> Storage | None:
    """How values of a type are kept; ``None`` if they cannot be."""
    from pyspark.sql import types as t

    if isinstance(kind, t.UserDefinedType):
        return storage_of(kind.sqlType())
    if isinstance(kind, (t.ArrayType, t.MapType, t.StructType)):
        return _JSON if all(storage_of(inner) for inner in _inner(kind)) else None
    table: Sequence[tuple[tuple[type, ...], Storage]] = (
        ((t.BooleanType, t.IntegralType), _INTEGER),
        ((t.FloatType, t.DoubleType), _REAL),
        ((t.StringType, t.CharType, t.VarcharType, t.DecimalType, t.VariantType), _TEXT),
        ((t.BinaryType,), _BLOB),
        ((t.DateType, t.TimestampType, t.TimestampNTZType, t.TimeType), _TIME),
    )
    return next((storage for kinds, storage in table if isinstance(kind, kinds)), None)


def _inner(kind: DataType) -> Iterator[DataType]:
    from pyspark.sql import types as t

    if isinstance(kind, t.ArrayType):
        yield kind.elementType
    elif isinstance(kind, t.MapType):
        yield from (kind.keyType, kind.valueType)
    else:
        yield from (field.dataType for field in kind)


def affinity(declared: str, strict: bool) -> str:
    """SQLite's rules, in its order."""
    text = declared.upper()
    if strict:
        return {"INT": "INTEGER", "BLOB": "STRICT BLOB", "ANY": "BLOB"}.get(text, text)
    if "INT" in text:
        return "INTEGER"
    if any(part in text for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not text or "BLOB" in text:
        return "BLOB"
    if any(part in text for part in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "NUMERIC"


def refuse_types(target: Table, schema: StructType) -> None:
    """Columns that no table of SQLite could hold; all of them in one error."""
    problems = list(_problems(target, schema))
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"SQLite cannot hold these rows:{lines}",
            hint="Cast or rename the columns in the region.",
            table=target.text,
        )


def _problems(target: Table, schema: StructType) -> Iterator[str]:
    from pyspark.sql.types import DoubleType, FloatType

    seen: dict[str, str] = {}
    for field in schema.fields:
        if storage_of(field.dataType) is None:
            yield f"column {field.name!r} is {field.dataType.simpleString()}"
        if field.name in target.key and isinstance(field.dataType, (FloatType, DoubleType)):
            yield f"key column {field.name!r} may be NaN, which SQLite does not know"
        if (other := seen.setdefault(folded(field.name), field.name)) != field.name:
            yield f"columns {other!r} and {field.name!r} are the same to SQLite"


def folded(name: str) -> str:
    """Names that SQLite takes for the same: it ignores the case of ASCII letters."""
    return "".join(c.lower() if c.isascii() else c for c in name)
