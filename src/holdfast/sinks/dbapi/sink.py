"""Exactly once into any database with transactions that Python has a DB-API 2.0 module for.

An epoch is one transaction of the task that writes: first the marker, so that a second writer of
the same epoch waits there or is refused, then the rows. See ``write_ahead``.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import HoldfastError, StorageError, UsageError
from holdfast.sinks import tables
from holdfast.sinks.dbapi.markers import Markers
from holdfast.sinks.dbapi.probing import refuse_unknown_types
from holdfast.sinks.dbapi.statements import (
    Dialect,
    ParamStyle,
    Statement,
    Upsert,
    refuse_unknown,
    writing,
)
from holdfast.sinks.tables import Found, Table, refuse_misfit
from holdfast.sinks.values import Values, python_values
from holdfast.sinks.write_ahead import Marker, WriteAheadSink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Connect = Callable[[], Any]
"""Opens a DB-API connection that is not in autocommit mode. Pickled to executors."""

MARKER_TABLE = "holdfast_commits"
_CHUNK = 10_000
_REFUSALS = {"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError"}
"""PEP 249's names of errors that come again with the same rows."""


class DbApiSink(WriteAheadSink):
    """A table behind a DB-API connection."""

    def __init__(
        self,
        connect: Connect,
        target: Table,
        *,
        paramstyle: ParamStyle | None = None,
        quote: str = '"',
        marker_table: str = MARKER_TABLE,
        upsert: Upsert = "delete-insert",
    ) -> None:
        refuse_unknown(paramstyle, upsert)
        if not callable(connect) or hasattr(connect, "cursor"):
            raise UsageError(
                "connect must be a function that opens a connection",
                hint="Tasks open their own: give a function, not a connection.",
            )
        self.key: Sequence[str] = target.key
        self.target = target
        self._connect = connect
        self._paramstyle = paramstyle
        self._mark = quote
        self._upsert = upsert
        self._marker_table = tables.table(marker_table, None)

    # On the driver

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002
        """The table has the columns, transactions are what they should be, values can be sent."""
        with self._open() as connection, self._told("check"):
            self._ensure_markers(connection)
            self._refuse_autocommit(connection)
            names = self._column_names(connection)
            # DB-API does not tell types and indexes.
            columns = {name: Found("", nullable=True) for name in names}
            refuse_misfit(self.target, schema, {}, columns, [self.target.key], {})
            refuse_unknown_types(connection, self._dialect(connection), schema, self.values)

    def _ensure_markers(self, connection: Any) -> None:
        markers = self._markers(connection)
        if markers.exists(connection):
            return
        connection.rollback()
        try:
            markers.create(connection)
            connection.commit()
        except Exception:  # another job may be quicker
            connection.rollback()
            if not markers.exists(connection):
                raise

    def _refuse_autocommit(self, connection: Any) -> None:
        markers = self._markers(connection)
        probe = Marker(f"probe-{secrets.token_hex(8)}", "probe", 1)
        connection.commit()
        markers.add(connection, probe)
        connection.rollback()
        if markers.has(connection, probe):
            markers.remove(connection, probe)
            connection.commit()
            raise UsageError(
                "the connection cannot roll back: every statement is committed at once",
                hint="Let connect() turn autocommit off, and use tables that know transactions.",
                table=self._marker_table.text,
            )
        connection.rollback()

    def _column_names(self, connection: Any) -> list[str]:
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(f"SELECT * FROM {self.target.quoted(self._mark)} WHERE 1 = 0")
                return [column[0] for column in cursor.description]
        except Exception as error:
            raise UsageError(
                f"the table cannot be read: {error}",
                hint="Create it, and let the user of the connection read and write it.",
                table=self.target.text,
            ) from error

    # In a task

    def write(self, marker: Marker, batches: Iterator[pa.RecordBatch]) -> None:
        """Write the rows unless the marker is there."""
        try:
            self._write(marker, batches)
        except (StorageError, UsageError):
            # Another writer may have done it meanwhile, or the answer to "commit" got lost.
            if not self._is_written(marker):
                raise

    def _write(self, marker: Marker, batches: Iterator[pa.RecordBatch]) -> None:
        with self._open() as connection:
            markers = self._markers(connection)
            with self._told("write"):
                self.begin(connection)
                if markers.has(connection, marker):
                    return
                markers.add(connection, marker)
            written = self.insert(connection, batches)
            with self._told("write"):
                markers.finish(connection, marker, written)
                connection.commit()

    def _is_written(self, marker: Marker) -> bool:
        try:
            with self._open() as connection:
                return self._markers(connection).has(connection, marker)
        except Exception:
            return False

    def insert(self, connection: Any, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows inside the transaction; how many?"""
        dialect, written = self._dialect(connection), 0
        with closing(connection.cursor()) as cursor:
            for rows in batches:
                statements = writing(dialect, self.target, rows.schema.names)
                for at in range(0, rows.num_rows, _CHUNK):
                    self._execute(cursor, dialect, statements, rows.slice(at, _CHUNK))
                written += rows.num_rows
        return written

    def _execute(
        self, cursor: Any, dialect: Dialect, statements: Sequence[Statement], rows: pa.RecordBatch
    ) -> None:
        columns = {name: self.values(rows.column(name)) for name in rows.schema.names}
        for statement in statements:
            taken = zip(*(columns[name] for name in statement.takes), strict=True)
            with self._told("write"):
                cursor.executemany(statement.text, dialect.bind(taken))

    # What another database may want to have differently

    def values(self, column: pa.Array) -> Values:
        """A column as the driver takes it."""
        return python_values(column)

    def begin(self, connection: Any) -> None:
        """Begin a transaction; DB-API connections do so by themselves."""

    def explain(self, error: Exception, doing: str) -> HoldfastError:
        """What to tell about an error of the driver."""
        kinds = {kind.__name__ for kind in type(error).__mro__}
        what = f"{type(error).__name__}: {error}"
        if kinds & _REFUSALS:
            return UsageError(
                f"the database refuses to {doing}: {what}",
                hint="The table, its constraints and the rows do not go together.",
                table=self.target.text,
            )
        return StorageError(
            f"the database could not {doing}: {what}",
            hint="It is tried again. Is the server up, and may this user write?",
            table=self.target.text,
        )

    def describe(self) -> str:
        """Where the rows go."""
        return f"table {self.target.text}"

    # Connections

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with self._told("connect"):
            connection = self._connect()
        # Closing a connection gives up what is not committed.
        with closing(connection):
            yield connection

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        try:
            yield
        except HoldfastError:
            raise
        except Exception as error:
            raise self.explain(error, doing) from error

    def _markers(self, connection: Any) -> Markers:
        return Markers(self._marker_table, self._dialect(connection))

    def _dialect(self, connection: Any) -> Dialect:
        return Dialect(self._paramstyle or _paramstyle_of(connection), self._mark, self._upsert)


def _paramstyle_of(connection: Any) -> ParamStyle:
    path = type(connection).__module__.split(".")
    for length in range(len(path), 0, -1):
        module = sys.modules.get(".".join(path[:length]))
        found = getattr(module, "paramstyle", None)
        if isinstance(found, str):
            return cast(ParamStyle, found)
    raise UsageError(
        f"the paramstyle of {type(connection).__qualname__} is not known",
        hint="Give paramstyle=…, as the documentation of the database's module says.",
    )


def write_ahead(
    connect: Connect,
    table: str | Sequence[str],
    *,
    key: str | Sequence[str] | None = None,
    paramstyle: ParamStyle | None = None,
    quote: str = '"',
    marker_table: str = MARKER_TABLE,
    upsert: Upsert = "delete-insert",
) -> DbApiSink:
    """Rows into a table over any DB-API 2.0 connection, exactly once.

    ``connect`` opens a connection, on executors too. Rows are appended, or with a ``key`` replace
    those of the same key; ``upsert`` says how. ``marker_table`` keeps which epochs are written; it
    is made if it is missing. Both tables must know transactions.
    """
    return DbApiSink(
        connect,
        tables.table(table, key),
        paramstyle=paramstyle,
        quote=quote,
        marker_table=marker_table,
        upsert=upsert,
    )
