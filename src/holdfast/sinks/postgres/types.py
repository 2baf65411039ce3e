"""Which PostgreSQL type holds the values of a Spark type, and which columns can take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, DecimalType, StructType

_TYPES = {
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "daytimeinterval": "interval",
    "array": "jsonb",
    "map": "jsonb",
    "struct": "jsonb",
    "variant": "jsonb",
}

_JSON = frozenset({"jsonb", "json", "text", "varchar"})
_TEXT = frozenset({"text", "varchar", "bpchar", "citext", "uuid", "json", "jsonb"})
_TAKES = {
    "boolean": frozenset({"bool"}),
    "byte": frozenset({"int2", "int4", "int8", "float4", "float8"}),
    "short": frozenset({"int2", "int4", "int8", "float4", "float8"}),
    "integer": frozenset({"int4", "int8", "float8"}),
    "long": frozenset({"int8"}),
    "float": frozenset({"float4", "float8"}),
    "double": frozenset({"float8"}),
    "string": _TEXT,
    "binary": frozenset({"bytea"}),
    "date": frozenset({"date"}),
    "timestamp": frozenset({"timestamptz"}),
    "timestamp_ntz": frozenset({"timestamp"}),
    "daytimeinterval": frozenset({"interval"}),
    "array": _JSON,
    "map": _JSON,
    "struct": _JSON,
    "variant": _JSON,
}
"""By names in ``pg_type``: what takes every value unchanged, and for text what can parse it."""

_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_MICROSECONDS = 6
_SCALES = 1 << 11
_HEADER = 4
"""A length or precision in ``atttypmod`` is stored with this added."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as the server's catalogue has it."""

    name: str
    shown: str
    """Its type, for people: ``numeric(10,2)``."""
    cast: str
    """Its type without length, for SQL: ``numeric``. Of a domain, the type behind it."""
    type: str
    """The name in ``pg_type``."""
    is_enum: bool
    modifier: int
    """``atttypmod``: length, precision and scale; -1 without."""
    may_be_absent: bool
    is_computed: bool
    """The server writes it itself and refuses values."""


def column_type(kind: DataType) -> str | None:
    """The type that a new table gets; ``None`` if there is none for such values."""
    name = kind.typeName()
    if name == "decimal":
        decimal: DecimalType = kind
        return f"numeric({decimal.precision},{decimal.scale})"
    if name in ("char", "varchar"):
        return f"{name}({kind.length})"
    return _TYPES.get(name) if _is_writable(kind) else None


def column_types(schema: StructType) -> dict[str, str]:
    """The types of all columns, or an error that names those without one."""
    types = {field.name: column_type(field.dataType) for field in schema}
    without = [name for name, found in types.items() if found is None]
    if without:
        lines = [f"{name!r} is {schema[name].dataType.simpleString()}" for name in without]
        raise UsageError(
            f"PostgreSQL has no type for some columns: {', '.join(lines)}",
            hint="Cast them in the region, for example to string, or leave them out.",
        )
    return {name: found for name, found in types.items() if found is not None}


def _is_writable(kind: DataType) -> bool:
    name = kind.typeName()
    if name == "array":
        return _is_writable(kind.elementType)
    if name == "map":
        # In JSON a key is text.
        return kind.keyType.typeName() not in ("array", "map", "struct", "variant") and all(
            map(_is_writable, (kind.keyType, kind.valueType))
        )
    if name == "struct":
        return all(_is_writable(field.dataType) for field in kind.fields)
    return name in _TYPES or name in ("decimal", "char", "varchar")


def fits(kind: DataType, column: Column) -> bool:
    """Whether a column that is there takes every value, or refuses it, but never changes it."""
    name = kind.typeName()
    if column.is_computed:
        return False
    if column.type == "numeric":
        return _numeric_fits(kind, column.modifier)
    if name in ("char", "varchar"):
        return column.type in _TEXT and _length(column) >= kind.length
    if name == "string" and column.is_enum:
        return True
    if name in ("timestamp", "timestamp_ntz") and column.modifier not in (-1, _MICROSECONDS):
        return False  # it would round
    return column.type in _TAKES.get(name, ())


def _numeric_fits(kind: DataType, modifier: int) -> bool:
    name = kind.typeName()
    if name != "decimal" and name not in _DIGITS:
        return False
    if modifier < 0:
        return True
    precision, scale = divmod(modifier - _HEADER, 1 << 16)
    scale -= _SCALES if scale >= _SCALES // 2 else 0  # since PostgreSQL 15 it may be negative
    wanted_scale = kind.scale if name == "decimal" else 0
    wanted_digits = kind.precision - kind.scale if name == "decimal" else _DIGITS[name]
    return bool(scale >= wanted_scale and precision - scale >= wanted_digits)


def _length(column: Column) -> float:
    limited = column.type in ("varchar", "bpchar") and column.modifier >= 0
    return column.modifier - _HEADER if limited else float("inf")
