"""Writing Arrow batches into a table, inside a transaction that is open already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from holdfast.sinks.postgres.catalog import MARK, Catalogue, names
from holdfast.sinks.postgres.rows import as_array_literal, as_csv
from holdfast.sinks.postgres.session import Session
from holdfast.sinks.tables import Table, quote

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

_CHUNK_ROWS = 10_000
_CHUNK_BYTES = 32 << 20
"""In one statement: enough that its own cost does not count, few enough for the server's memory."""


class Writing(Protocol):
    """Takes the rows of one transaction."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows; what is wrong with them may be told later."""

    def finish(self) -> None:
        """All rows are sent: wait until the server has taken them."""


def writing(session: Session, table: Table) -> Writing:
    """Append without a key, upsert with one."""
    return Upserting(session, table) if table.key else Copying(session, table)


class Copying:
    """Appends: one ``COPY`` for all rows of the transaction."""

    def __init__(self, session: Session, table: Table) -> None:
        self._session = session
        self._table = table
        self._open = ExitStack()
        self._copy: psycopg.Copy | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows as CSV."""
        csv = as_csv(rows)
        with self._session.telling():
            if self._copy is None:
                self._copy = self._start(rows.schema.names)
            self._copy.write(csv)

    def _start(self, columns: Sequence[str]) -> psycopg.Copy:
        target = f"{self._table.quoted(MARK)} ({names(columns)})"
        statement = f"COPY {target} FROM STDIN (FORMAT csv)"
        cursor = self._session.connection.cursor()
        return self._open.enter_context(cursor.copy(statement.encode()))

    def finish(self) -> None:
        """Only now the server says whether it liked all of them."""
        with self._session.telling():
            self._open.close()


class Upserting:
    """Inserts or replaces by key.

    A transaction that used a temporary table cannot be prepared, so rows come as arrays.
    """

    def __init__(self, session: Session, table: Table) -> None:
        self._session = session
        self._table = table
        self._statement = ""

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows; no two may have the same key."""
        if not self._statement:
            self._statement = self._upsert(rows.schema.names)
        for chunk in chunks(rows):
            values = [as_array_literal(column) for column in chunk.columns]
            self._session.run(self._statement, values)

    def _upsert(self, columns: Sequence[str]) -> str:
        there = Catalogue(self._session, self._table).columns()
        casts = ", ".join(f"\0::{there[name].cast}[]" for name in columns)
        others = [quote(name, MARK) for name in columns if name not in self._table.key]
        replacing = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        statement = (
            f"INSERT INTO {self._table.quoted(MARK)} ({names(columns)}) "
            f"SELECT * FROM unnest({casts}) AS r "
            f"ON CONFLICT ({names(self._table.key)}) "
            + (f"DO UPDATE SET {replacing}" if others else "DO NOTHING")
        )
        # Names may have percent signs, which the driver would take for values.
        return statement.replace("%", "%%").replace("\0", "%s")

    def finish(self) -> None:
        """Every statement has been answered."""


def chunks(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in pieces of a size that one statement can carry."""
    fitting = _CHUNK_BYTES * rows.num_rows // max(rows.nbytes, 1)
    size = min(max(fitting, 1), _CHUNK_ROWS)
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)
