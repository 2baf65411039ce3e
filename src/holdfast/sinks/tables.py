"""What all database sinks have in common: names of tables, and whether rows fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Table:
    """A table and the rows that go into it."""

    name: tuple[str, ...]
    """``("schema", "table")`` or ``("table",)``."""
    key: tuple[str, ...] = ()
    """Without one rows are appended, with one they replace those of the same key."""

    @property
    def text(self) -> str:
        """For people."""
        return ".".join(self.name)

    def quoted(self, mark: str) -> str:
        """For SQL."""
        return ".".join(quote(part, mark) for part in self.name)


def table(name: str | Sequence[str], key: str | Sequence[str] | None) -> Table:
    """From what a user writes: ``"counts"``, ``"public.counts"`` or ``("odd.schema", "table")``."""
    parts = tuple(name.split(".")) if isinstance(name, str) else tuple(name)
    if not parts or not all(parts):
        raise UsageError("this is not the name of a table", given=name)
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    return Table(parts, keys)


Delivery = Literal["exactly-once", "idempotent"]


def refuse_delivery(target: Table, delivery: str, parallelism: int | None = None) -> None:
    """Arguments of a database sink that cannot be meant."""
    if parallelism is not None and parallelism < 1:
        raise UsageError("parallelism is at least 1", given=parallelism)
    if delivery not in get_args(Delivery):
        raise UsageError(
            f"there is no delivery {delivery!r}", hint="It is exactly-once or idempotent."
        )
    if delivery == "idempotent" and not target.key:
        raise UsageError(
            "idempotent delivery replaces rows by key, and there is none",
            hint="Give key=…, or use delivery='exactly-once'.",
            table=target.text,
        )


def quote(identifier: str, mark: str) -> str:
    """An identifier for SQL, whatever characters it has."""
    if "\0" in identifier:
        raise UsageError("a name must not contain the character NUL", given=repr(identifier))
    return f"{mark}{identifier.replace(mark, mark * 2)}{mark}"


@dataclass(frozen=True, slots=True)
class Found:
    """A column that the table has."""

    type: str
    nullable: bool
    """Whether a row may leave it out: it may be null, or the database fills it in."""


def refuse_misfit(
    target: Table,
    schema: StructType,
    wanted: Mapping[str, str],
    columns: Mapping[str, Found],
    unique: Sequence[Sequence[str]],
    fits: Mapping[str, bool],
) -> None:
    """Compare rows with a table that exists; one error with everything that is wrong.

    ``wanted`` has the type that the sink would give each column, ``fits`` whether the type that is
    there can take its values, ``unique`` the columns of the primary key and of unique indexes.
    """
    names = schema.fieldNames()
    problems = [f"the table has no column {name!r}" for name in names if name not in columns]
    problems += [
        f"column {name!r} is {columns[name].type}, rows have {schema[name].dataType.simpleString()}"
        f" ({wanted[name]} would do)"
        for name in names
        if name in columns and not fits.get(name, True)
    ]
    problems += [
        f"the table wants a value for {name!r}, which the rows do not have"
        for name, found in columns.items()
        if not found.nullable and name not in names
    ]
    if target.key and sorted(target.key) not in [sorted(found) for found in unique]:
        problems.append(f"no unique index or primary key on exactly ({', '.join(target.key)})")
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"the rows do not fit table {target.text}:{lines}",
            hint="Change the table or the region's columns, or use another table.",
            table=target.text,
        )
