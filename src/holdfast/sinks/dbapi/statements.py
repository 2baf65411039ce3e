"""SQL for any DB-API module: placeholders of all five kinds, and three ways to replace rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from holdfast.errors import UsageError
from holdfast.sinks.tables import Table, quote

ParamStyle = Literal["qmark", "numeric", "named", "format", "pyformat"]
"""PEP 249's names: ``?``, ``:1``, ``:name``, ``%s``, ``%(name)s``."""

Upsert = Literal["delete-insert", "on-conflict", "on-duplicate-key"]
"""``delete-insert`` works everywhere; other columns of the row fall back to their defaults.
``on-conflict`` is for PostgreSQL and SQLite, ``on-duplicate-key`` for MariaDB and MySQL."""

Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """A text, and the columns that its placeholders take in order."""

    text: str
    takes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a database wants to be spoken to."""

    paramstyle: ParamStyle
    mark: str = '"'
    """Goes around identifiers."""
    upsert: Upsert = "delete-insert"

    def name(self, identifier: str) -> str:
        """An identifier, safe from being taken for a placeholder."""
        return self._plain(quote(identifier, self.mark))

    def table(self, target: Table) -> str:
        """A table's name."""
        return self._plain(target.quoted(self.mark))

    def _plain(self, text: str) -> str:
        return text.replace("%", "%%") if self.paramstyle in ("format", "pyformat") else text

    def placeholders(self, count: int, first: int = 0) -> list[str]:
        """Of this many values."""
        shape = {
            "qmark": "?",
            "numeric": ":{next}",
            "named": ":p{at}",
            "format": "%s",
            "pyformat": "%(p{at})s",
        }[self.paramstyle]
        return [shape.format(at=at, next=at + 1) for at in range(first, first + count)]

    def bind(self, rows: Iterable[Sequence[Any]]) -> list[Parameters]:
        """Values as ``execute`` wants them."""
        if self.paramstyle in ("named", "pyformat"):
            return [{f"p{at}": value for at, value in enumerate(row)} for row in rows]
        return list(rows)

    def equal(self, columns: Sequence[str], first: int = 0) -> list[str]:
        """``"a" = ?`` for each column."""
        given = self.placeholders(len(columns), first)
        return [f"{self.name(c)} = {value}" for c, value in zip(columns, given, strict=True)]


def insert(dialect: Dialect, target: Table, columns: Sequence[str]) -> Statement:
    """One row."""
    names = ", ".join(map(dialect.name, columns))
    values = ", ".join(dialect.placeholders(len(columns)))
    text = f"INSERT INTO {dialect.table(target)} ({names}) VALUES ({values})"
    return Statement(text, tuple(columns))


def writing(dialect: Dialect, target: Table, columns: Sequence[str]) -> list[Statement]:
    """What writes rows, each statement for many of them: appends, or replaces by key."""
    adding = insert(dialect, target, columns)
    if not target.key:
        return [adding]
    others = [name for name in columns if name not in target.key]
    if dialect.upsert == "delete-insert":
        where = " AND ".join(dialect.equal(target.key))
        text = f"DELETE FROM {dialect.table(target)} WHERE {where}"
        return [Statement(text, target.key), adding]
    return [Statement(f"{adding.text} {_clause(dialect, target, others)}", adding.takes)]


def _clause(dialect: Dialect, target: Table, others: Sequence[str]) -> str:
    keys = [dialect.name(name) for name in target.key]
    names = [dialect.name(name) for name in others]
    if dialect.upsert == "on-duplicate-key":
        changes = [f"{name} = VALUES({name})" for name in names or keys]
        return f"ON DUPLICATE KEY UPDATE {', '.join(changes)}"
    changes = [f"{name} = excluded.{name}" for name in names]
    doing = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
    return f"ON CONFLICT ({', '.join(keys)}) DO {doing}"


def refuse_unknown(paramstyle: str | None, upsert: str) -> None:
    """Spellings that do not exist."""
    if paramstyle is not None and paramstyle not in get_args(ParamStyle):
        raise UsageError(
            f"there is no paramstyle {paramstyle!r}",
            hint=f"PEP 249 has {', '.join(get_args(ParamStyle))}.",
        )
    if upsert not in get_args(Upsert):
        raise UsageError(
            f"there is no upsert {upsert!r}", hint=f"Choose one of {', '.join(get_args(Upsert))}."
        )
