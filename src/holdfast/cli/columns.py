"""The columns of state: which there are, and how they become text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def with_distinct_fields(rows: DataFrame) -> DataFrame:
    """The same rows with field names that differ, as SQL, JSON and Parquet need it.

    Spark names the state of an aggregate after its function, so two maxima are both ``max``. The
    second becomes ``max_2``.
    """
    from pyspark.sql import functions as F  # noqa: N812  what everybody calls it
    from pyspark.sql.types import StructType

    return rows.select(
        *(
            F.col(quoted(field.name)).cast(_distinct(field.dataType)).alias(field.name)
            if isinstance(field.dataType, StructType)
            else F.col(quoted(field.name))
            for field in rows.schema.fields
        )
    )


def _distinct(kind: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    names = distinct_names(field.name for field in kind.fields)
    return StructType(
        [
            StructField(name, field.dataType, field.nullable)
            for name, field in zip(names, kind.fields, strict=True)
        ]
    )


def distinct_names(names: Iterable[str]) -> list[str]:
    """Each name, with a number behind it where an earlier one is the same but for case."""
    given = list(names)
    used: set[str] = set()
    distinct = []
    for name in given:
        candidate, number = name, 1
        while candidate.lower() in used or (
            number > 1 and candidate.lower() in {other.lower() for other in given}
        ):
            number += 1
            candidate = f"{name}_{number}"
        used.add(candidate.lower())
        distinct.append(candidate)
    return distinct


def flattened(rows: DataFrame) -> dict[str, tuple[str, Any]]:
    """Columns to show, each with its path in SQL and its type; ``key`` and ``value`` are opened."""
    from pyspark.sql.types import StructType

    columns: dict[str, tuple[str, Any]] = {}
    for field in rows.schema.fields:
        if isinstance(field.dataType, StructType):
            for inner in field.dataType.fields:
                path = f"{quoted(field.name)}.{quoted(inner.name)}"
                columns[f"{field.name}.{inner.name}"] = path, inner.dataType
        else:
            columns[field.name] = quoted(field.name), field.dataType
    return columns


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def as_text(path: str, kind: Any) -> Column:
    """One cell: nested values as JSON, bytes as in JSON."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

    if isinstance(kind, (StructType, ArrayType, MapType, VariantType)):
        return F.to_json(F.col(path))
    return F.base64(F.col(path)) if isinstance(kind, BinaryType) else F.col(path).cast("string")


def as_json(rows: DataFrame) -> Column:
    """A whole row."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.to_json(F.struct(*map(quoted, rows.columns)), {"ignoreNullFields": "false"})
