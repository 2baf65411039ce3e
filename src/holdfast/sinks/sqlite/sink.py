"""SQLite, the database that is a file: exactly once by write-ahead, or idempotent by key.

The file must be on the machine where the task runs, so Spark must run locally. A database that the
sink creates is in WAL mode: readers are never blocked, and see whole epochs. One that exists keeps
its mode; in SQLite's older modes readers wait while an epoch is written.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, StorageError, UsageError
from holdfast.sinks import tables
from holdfast.sinks.arrow_tasks import map_batches
from holdfast.sinks.dbapi.sink import DbApiSink
from holdfast.sinks.keys import refuse_missing_key, refuse_null_keys
from holdfast.sinks.sqlite.table import SqliteTable
from holdfast.sinks.sqlite.types import refuse_types
from holdfast.sinks.tables import Delivery, Table
from holdfast.sinks.values import Values, text_values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_HINTS = {
    "SQLITE_BUSY": "Another program holds a transaction open. It is tried again.",
    "SQLITE_FULL": "Make room on the disk. It is tried again.",
    "SQLITE_IOERR": "Look after the disk. It is tried again.",
    "SQLITE_READONLY": "The file and its folder must be writable for the user who runs the job.",
    "SQLITE_CANTOPEN": "The folder must exist and be writable for the user who runs the job.",
    "SQLITE_NOTADB": "Give another path: the file is something else.",
    "SQLITE_CORRUPT": "Repair the database with the sqlite3 command .recover, or use another one.",
}


@dataclass(frozen=True, slots=True)
class Connecting:
    """Opens the file; creates it if that is wanted."""

    path: str
    create: bool
    timeout: float

    def __call__(self) -> sqlite3.Connection:
        """A connection that begins transactions only when told to."""
        mode = "rwc" if self.create else "rw"
        uri = f"{Path(self.path).as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, self.timeout, isolation_level=None, uri=True)
        # As FULL, and in the older modes a commit also survives a power cut right after it.
        connection.execute("PRAGMA synchronous = EXTRA")
        return connection


class SqliteSink(DbApiSink):
    """A table in a file."""

    def __init__(self, path: str, target: Table, *, create: bool, timeout: float) -> None:
        super().__init__(
            Connecting(path, create, timeout), target, paramstyle="qmark", upsert="on-conflict"
        )
        self.path = path
        self.create = create

    def check(self, spark: SparkSession, schema: StructType) -> None:
        """The file can be reached from tasks, and the table can take the rows."""
        refuse_remote(spark, self.path)
        refuse_types(self.target, schema)
        with self._open() as connection, self._told("check"):
            if self.create:
                _use_wal_if_new(connection)
            found = SqliteTable(connection, self.target)
            if self.create and not found.exists():
                found.create(schema)
            found.refuse_misfit(schema)
            self._ensure_markers(connection)

    def begin(self, connection: Any) -> None:
        """Take the write lock at once: two writers take turns from the first statement on."""
        connection.execute("BEGIN IMMEDIATE")

    def values(self, column: pa.Array) -> Values:
        """See ``sqlite_types``."""
        return text_values(column)

    def upsert(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write rows without a marker, in one transaction."""
        with self._open() as connection:
            with self._told("write"):
                self.begin(connection)
            self.insert(connection, batches)
            with self._told("write"):
                connection.commit()

    def explain(self, error: Exception, doing: str) -> HoldfastError:
        """By SQLite's own names of errors."""
        name = getattr(error, "sqlite_errorname", "")
        hint = next((h for prefix, h in _HINTS.items() if name.startswith(prefix)), None)
        if hint is None:
            return super().explain(error, doing)
        return StorageError(f"SQLite could not {doing}: {error}", hint=hint, path=self.path)

    def describe(self) -> str:
        """Where the rows go."""
        return f"table {self.target.text} in {self.path}"


class IdempotentSqliteSink:
    """Rows are visible with their batch; one that comes again replaces itself."""

    def __init__(self, sink: SqliteSink) -> None:
        self._sink = sink
        self._checked = False

    def check(self, spark: SparkSession, schema: StructType) -> None:
        """Before the first row: can the table take it?"""
        refuse_missing_key(self._sink.key, schema)
        self._sink.check(spark, schema)
        self._checked = True

    def write(self, rows: DataFrame, batch: int) -> None:  # noqa: ARG002
        """Replace by key, in one transaction of one task; of rows with one key the last stays."""
        if not self._checked:
            self.check(rows.sparkSession, rows.schema)
        upserting = _Upserting(self._sink)
        # Not ``coalesce``, which would compute the whole batch in one task.
        map_batches(rows.repartition(1), upserting, "done boolean").collect()


@dataclass(frozen=True, slots=True)
class _Upserting:
    """What the task does."""

    sink: SqliteSink

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        self.sink.upsert(self._checked(batches))
        yield from ()

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            refuse_null_keys(rows, self.sink.key, self.sink.target.text)
            yield rows


def refuse_remote(spark: SparkSession, path: str) -> None:
    """Executors elsewhere would write into files of their own."""
    master = spark.sparkContext.master
    if master != "local" and not master.startswith("local["):
        raise UsageError(
            f"SQLite needs Spark on one machine, this one runs on {master}",
            hint="Use a database server (hf.sinks.postgres, mysql), or --master 'local[*]'.",
            path=path,
        )


def _use_wal_if_new(connection: sqlite3.Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages == 0:
        connection.execute("PRAGMA journal_mode = WAL")


def sqlite(
    path: str | os.PathLike[str],
    table: str,
    *,
    key: str | Sequence[str] | None = None,
    create: bool = True,
    delivery: Delivery = "exactly-once",
    timeout: float = 30.0,
) -> SqliteSink | IdempotentSqliteSink:
    """Rows into a table of a SQLite file.

    They are appended, or with a ``key`` replace those of the same key. File and table are created
    if they are missing, unless ``create`` is off. ``timeout``: seconds to wait for other writers.
    """
    target = tables.table(table, key)
    _refuse_arguments(path, target, delivery)
    sink = SqliteSink(os.path.abspath(path), target, create=create, timeout=timeout)  # noqa: PTH100
    return sink if delivery == "exactly-once" else IdempotentSqliteSink(sink)


def _refuse_arguments(path: str | os.PathLike[str], target: Table, delivery: str) -> None:
    if os.fspath(path).startswith((":memory:", "file:")) or not os.fspath(path):
        raise UsageError("the sink needs the path of a file", given=path)
    if len(target.name) > 1 and target.name[:-1] != ("main",):
        raise UsageError(
            "a SQLite file has no schemas but main",
            hint='A dot in the name of a table: table=("odd.name",).',
            table=target.text,
        )
    tables.refuse_delivery(target, delivery)
