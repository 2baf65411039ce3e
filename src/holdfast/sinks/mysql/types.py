"""Types of MariaDB and MySQL for those of Spark, and whether a column takes a type's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, DecimalType, StructField, StructType

KEY_CHARACTERS = 255
"""Length of a string in a key that is created. Longer keys: create the table yourself."""

_INDEX_CHARACTERS = 768  # InnoDB: 3072 bytes in an index, four for each character

_INTEGERS = {"byte": ("TINYINT", 3), "short": ("SMALLINT", 5), "integer": ("INT", 10)}
_INTEGERS["long"] = ("BIGINT", 19)
_WIDTHS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = {"tinytext", "text", "mediumtext", "longtext", "varchar", "json"}
_BYTES = {"tinyblob", "blob", "mediumblob", "longblob", "varbinary"}
_UNICODE = {"utf8mb4", "utf16", "utf16le", "utf32"}
_SIMPLE = {
    "boolean": "BOOLEAN",
    # FLOAT would store the same, but answers with six digits.
    "float": "DOUBLE",
    "double": "DOUBLE",
    "binary": "LONGBLOB",
    "date": "DATE",
    # Not TIMESTAMP, which ends in 1970 and 2038 and is shown in the reader's zone. In UTC.
    "timestamp": "DATETIME(6)",
    "timestamp_ntz": "DATETIME(6)",
    "time": "TIME(6)",
    "string": "LONGTEXT",
    "char": "LONGTEXT",
    "varchar": "LONGTEXT",
    "array": "JSON",
    "map": "JSON",
    "struct": "JSON",
    "variant": "JSON",
}
_NESTED = {"array", "map", "struct", "variant"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the server describes it."""

    name: str
    type: str
    """Its family: ``bigint``."""
    full: str
    """With all that belongs to it: ``bigint(20) unsigned``."""
    optional: bool
    """Whether a row may leave it out."""
    computed: bool
    """Whether the server works it out from others."""
    characters: str | None
    collation: str | None
    precision: int
    """Digits of a number, or digits behind the seconds."""
    scale: int


def column_types(schema: StructType, key: Sequence[str], max_scale: int = 38) -> dict[str, str]:
    """A type for each column; ``UsageError`` about all that have none.

    ``max_scale`` is 38 for MariaDB, 30 for MySQL.
    """
    strings = sum(1 for name in key if _kind(schema[name].dataType) in ("string", "binary"))
    length = min(KEY_CHARACTERS, _INDEX_CHARACTERS // max(strings, 1))
    found: dict[str, str] = {}
    problems = []
    for field in schema.fields:
        problem = _problem(field, field.name in key, max_scale)
        if problem:
            problems.append(problem)
        else:
            found[field.name] = _column_type(field.dataType, length if field.name in key else None)
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"MariaDB and MySQL have no type for these columns:{lines}",
            hint="Cast them in the region, or leave them out.",
        )
    return found


def _problem(field: StructField, in_key: bool, max_scale: int) -> str | None:
    kind = _kind(field.dataType)
    if unknown := _unknown(field.dataType):
        return f"{field.name!r}: {field.dataType.simpleString()}{unknown}"
    if kind == "decimal" and _decimal(field.dataType).scale > max_scale:
        return f"{field.name!r}: a decimal has at most {max_scale} digits behind the point"
    if in_key and kind in _NESTED:
        return f"{field.name!r}: {field.dataType.simpleString()} cannot be a key"
    return None


def _unknown(kind: DataType) -> str:
    """What is in there that nothing stands for; empty if all is well."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        return _inside(kind.elementType)
    if isinstance(kind, MapType):
        return _inside(kind.keyType) or _inside(kind.valueType)
    if isinstance(kind, StructType):
        return next((text for f in kind.fields if (text := _inside(f.dataType))), "")
    name = _kind(kind)
    if name.endswith("interval"):
        return " (an interval; cast it to a number of seconds or months)"
    return "" if name in _SIMPLE or name in _INTEGERS or name == "decimal" else " is not supported"


def _inside(kind: DataType) -> str:
    return f" (in it {kind.simpleString()})" if _unknown(kind) else ""


def _column_type(kind: DataType, key_length: int | None) -> str:
    name = _kind(kind)
    if name in _INTEGERS:
        return _INTEGERS[name][0]
    if name == "decimal":
        return f"DECIMAL({_decimal(kind).precision},{_decimal(kind).scale})"
    if name in ("varchar", "char"):
        return f"VARCHAR({kind.length})"
    if key_length and name == "string":
        return f"VARCHAR({key_length})"
    if key_length and name == "binary":
        return f"VARBINARY({key_length})"
    return _SIMPLE[name]


def _kind(kind: DataType) -> str:
    from pyspark.sql.types import CharType, StringType, TimeType, VarcharType

    if isinstance(kind, VarcharType):
        return "varchar"
    if isinstance(kind, CharType):
        return "char"
    if isinstance(kind, StringType):
        return "string"  # whatever its collation
    if isinstance(kind, TimeType):
        return "time"
    return str(kind.typeName())


def _decimal(kind: DataType) -> DecimalType:
    return kind


def fits(kind: DataType, column: Column) -> bool:
    """Whether the column takes every value of this type, unchanged.

    Strings and bytes may be too long for it; the server then refuses the row.
    """
    if column.computed:
        return False
    name = _kind(kind)
    if name in _INTEGERS:
        return _holds_integers(column, *_INTEGERS[name])
    if name == "decimal":
        whole = _decimal(kind).precision - _decimal(kind).scale
        return _holds_digits(column, whole, _decimal(kind).scale)
    return _FITS[name](column)


def _holds_integers(column: Column, wanted: str, digits: int) -> bool:
    if "unsigned" in column.full:
        return False
    if column.type in _WIDTHS:
        return _WIDTHS.index(column.type) >= _WIDTHS.index(wanted.lower())
    return _holds_digits(column, digits, 0) or (column.type == "double" and digits < 16)


def _holds_digits(column: Column, whole: int, scale: int) -> bool:
    holds = column.precision - column.scale >= whole and column.scale >= scale
    return column.type == "decimal" and "unsigned" not in column.full and holds


def _holds_text(column: Column) -> bool:
    return column.type in _TEXTS and column.characters in (*_UNICODE, None)


def _holds_char(column: Column) -> bool:
    return _holds_text(column) or column.type == "char"


def _holds_instant(column: Column) -> bool:
    return column.type in ("datetime", "timestamp") and column.precision == 6


_FITS: dict[str, Callable[[Column], bool]] = {
    "boolean": lambda column: column.type in _WIDTHS or column.full == "bit(1)",
    "float": lambda column: column.type in ("float", "double"),
    "double": lambda column: column.type == "double",
    "binary": lambda column: column.type in _BYTES,
    "date": lambda column: column.type in ("date", "datetime"),
    "timestamp": _holds_instant,
    "timestamp_ntz": lambda column: column.type == "datetime" and column.precision == 6,
    "time": lambda column: column.type == "time" and column.precision == 6,
    "string": _holds_text,
    "varchar": _holds_text,
    "char": _holds_char,
    **dict.fromkeys(_NESTED, _holds_text),
}
