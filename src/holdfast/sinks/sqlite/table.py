"""A table of SQLite as it is found, or made for rows."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.sinks import tables
from holdfast.sinks.sqlite.types import Storage, affinity, folded, storage_of
from holdfast.sinks.tables import Found, Table, quote

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class SqliteTable:
    """The table behind a name, over a connection."""

    connection: sqlite3.Connection
    target: Table

    @property
    def _name(self) -> str:
        return self.target.name[-1]

    def exists(self) -> bool:
        """Whether it is there; what cannot take rows is refused."""
        found = self.connection.execute(
            "SELECT type FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name = ? COLLATE NOCASE",
            (self._name,),
        ).fetchone()
        if found == ("view",):
            raise UsageError("rows cannot be written into a view", table=self.target.text)
        return found is not None

    def create(self, schema: StructType) -> None:
        """Make it; the key becomes the primary key."""
        required = dict.fromkeys(self.target.key, " NOT NULL")
        parts = [
            f"{_quoted(name)} {_storage(schema, name).declared}{required.get(name, '')}"
            for name in schema.fieldNames()
        ]
        if self.target.key:
            parts.append(f"PRIMARY KEY ({', '.join(map(_quoted, self.target.key))})")
        # Another job may be quicker.
        name, columns = self.target.quoted('"'), ", ".join(parts)
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")

    def refuse_misfit(self, schema: StructType) -> None:
        """One error with everything that is wrong."""
        if not self.exists():
            raise UsageError(
                "the table does not exist",
                hint="Create it, or let the sink do so with create=True.",
                table=self.target.text,
            )
        names = {folded(name): name for name in schema.fieldNames()}
        columns = self._columns(names)
        strict = self._is_strict()
        wanted = {name: _storage(schema, name) for name in schema.fieldNames()}
        fits = {
            name: affinity(columns[name].type, strict) in storage.affinities
            for name, storage in wanted.items()
            if name in columns
        }
        declared = {name: storage.declared for name, storage in wanted.items()}
        unique = self._unique(names)
        tables.refuse_misfit(self.target, schema, declared, columns, unique, fits)

    def _columns(self, names: dict[str, str]) -> dict[str, Found]:
        """By the names that the rows have, where only the case differs."""
        found = self._pragma("table_info", self._name)
        keys = [column["name"] for column in found if column["pk"]]
        columns = {}
        for column in found:
            filled = column["dflt_value"] is not None or (
                keys == [column["name"]] and column["type"].upper() == "INTEGER"
            )
            name = names.get(folded(column["name"]), column["name"])
            columns[name] = Found(column["type"], filled or not column["notnull"])
        return columns

    def _unique(self, names: dict[str, str]) -> list[list[str]]:
        """Columns of the primary key and of unique indexes over all rows."""
        keys = [column["name"] for column in self._pragma("table_info", self._name) if column["pk"]]
        indexes = [
            [column["name"] for column in self._pragma("index_info", index["name"])]
            for index in self._pragma("index_list", self._name)
            if index["unique"] and not index["partial"]
        ]
        plain = [index for index in [keys, *indexes] if index and None not in index]
        return [[names.get(folded(name), name) for name in index] for index in plain]

    def _is_strict(self) -> bool:
        listed = self._pragma("table_list", self._name)
        return any(table.get("strict") for table in listed if table["schema"] == "main")

    def _pragma(self, pragma: str, argument: str) -> list[dict[str, Any]]:
        cursor = self.connection.execute(f"SELECT * FROM pragma_{pragma}(?)", (argument,))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def _quoted(name: str) -> str:
    return quote(name, '"')


def _storage(schema: StructType, name: str) -> Storage:
    found = storage_of(schema[name].dataType)
    assert found is not None  # refused before
    return found
