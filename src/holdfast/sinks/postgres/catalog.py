"""What the server says about a table, and whether rows fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.sinks.postgres.session import Session, more_prepared
from holdfast.sinks.postgres.types import Column, column_types, fits
from holdfast.sinks.tables import Found, Table, quote, refuse_misfit

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MARK = '"'
_NAME_BYTES = 63

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(b.oid, -1), b.typname,
       b.typtype = 'e', CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END,
       NOT a.attnotnull OR a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_UNIQUE = """
SELECT array_agg(a.attname::text)
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, position)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indimmediate AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL AND k.position <= i.indnkeyatts
GROUP BY i.indexrelid
"""
_KIND = """
SELECT c.relkind::text, c.relpersistence::text, current_user,
       ARRAY(SELECT p FROM unnest(%s::text[]) p WHERE NOT has_any_column_privilege(c.oid, p))
FROM pg_class c WHERE c.oid = %s::regclass
"""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The server's view of one table."""

    session: Session
    table: Table

    @property
    def _name(self) -> str:
        return self.table.quoted(MARK)

    def has_table(self) -> bool:
        """Whether it exists."""
        return self.session.rows("SELECT to_regclass(%s) IS NOT NULL", [self._name])[0][0] is True

    def columns(self) -> dict[str, Column]:
        """All columns, by name."""
        found = [Column(*row) for row in self.session.rows(_COLUMNS, [self._name])]
        return {column.name: column for column in found}

    def unique(self) -> list[list[str]]:
        """Columns of each index that ``ON CONFLICT`` can use."""
        return [row[0] for row in self.session.rows(_UNIQUE, [self._name])]

    def create(self, schema: StructType) -> None:
        """Create the table if it is missing."""
        types = column_types(schema)
        refuse_long_names([*self.table.name, *types])
        lines = [f"{quote(name, MARK)} {found}" for name, found in types.items()]
        if self.table.key:
            lines.append(f"PRIMARY KEY ({names(self.table.key)})")
        self.session.run(f"CREATE TABLE IF NOT EXISTS {self._name} ({', '.join(lines)})")

    def check(self, schema: StructType) -> None:
        """Refuse rows that the table would not take, and tables that we may not write."""
        wanted = column_types(schema)
        if not self.has_table():
            raise UsageError(
                f"there is no table {self.table.text}",
                hint="Create it, or let the sink do that with create=True.",
                table=self.table.text,
            )
        columns = self.columns()
        refuse_misfit(
            self.table,
            schema,
            wanted,
            {name: Found(c.shown, c.may_be_absent) for name, c in columns.items()},
            self.unique(),
            {f.name: fits(f.dataType, columns[f.name]) for f in schema if f.name in columns},
        )
        self._check_rights()

    def _check_rights(self) -> None:
        # ON CONFLICT reads the columns of its index.
        needed = ["INSERT", "UPDATE", "SELECT"] if self.table.key else ["INSERT"]
        kind, _, user, missing = self.session.rows(_KIND, [needed, self._name])[0]
        if kind not in ("r", "p"):
            raise UsageError(
                f"{self.table.text} is not an ordinary table",
                hint="Views and foreign tables cannot be written exactly once. Name the table.",
                table=self.table.text,
            )
        if missing:
            rights = ", ".join(missing)
            raise UsageError(
                f"user {user} lacks the right to {rights} on {self.table.text}",
                hint=f"Run GRANT {rights} ON {self._name} TO {quote(user, MARK)}.",
                table=self.table.text,
            )

    def refuse_unlogged(self) -> None:
        """Such a table is emptied when the server crashes."""
        if self.session.rows(_KIND, [[], self._name])[0][1] == "u":
            raise UsageError(
                f"{self.table.text} is unlogged: it loses all rows when the server crashes",
                hint=f"Run ALTER TABLE {self._name} SET LOGGED.",
                table=self.table.text,
            )


def prepare_table(session: Session, table: Table, schema: StructType, *, create: bool) -> None:
    """Create the table if that is wanted and it is missing; then rows must fit it."""
    catalogue = Catalogue(session, table)
    if create and not catalogue.has_table():
        catalogue.create(schema)
    catalogue.check(schema)


def refuse_too_few_prepared(session: Session, wanted: int) -> None:
    """Every part of an epoch is a prepared transaction."""
    allowed = int(session.rows("SHOW max_prepared_transactions")[0][0])
    if allowed < wanted:
        raise UsageError(
            "the PostgreSQL server allows no prepared transactions"
            if allowed == 0
            else f"the server allows {allowed} prepared transactions, this sink needs {wanted}",
            hint=more_prepared(wanted * 2),
            server=session.server.text,
        )


def refuse_long_names(identifiers: list[str]) -> None:
    """The server would cut them off without a word."""
    long = [name for name in identifiers if len(name.encode()) > _NAME_BYTES]
    if long:
        raise UsageError(
            f"names in PostgreSQL have at most {_NAME_BYTES} bytes: {', '.join(long)}",
            hint="Rename the columns in the region, or the table.",
        )


def names(columns: Sequence[str]) -> str:
    """Columns for SQL."""
    return ", ".join(quote(name, MARK) for name in columns)
