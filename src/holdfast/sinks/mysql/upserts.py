"""Upserts into MariaDB and MySQL that are visible at once: exactly once in effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.sinks.arrow_tasks import map_batches
from holdfast.sinks.keys import last_by_key, refuse_missing_key, refuse_null_keys
from holdfast.sinks.mysql.rows import insert
from holdfast.sinks.mysql.server import MySqlServer, MySqlUnavailable, ask
from holdfast.sinks.mysql.tables import ready
from holdfast.sinks.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TRIES = 5


@dataclass(slots=True)
class MySqlUpserts:
    """A ``PlainSink``: a batch that comes again writes the same rows again.

    Every statement is its own transaction: readers see a batch grow.
    """

    server: MySqlServer
    table: Table
    create: bool = False
    parallelism: int | None = None
    _checked: bool = field(default=False, repr=False)

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002
        """Reach the server; the table must be there and fit."""
        refuse_missing_key(self.table.key, schema)
        with self.server.explained(self.table.text):
            connection = self.server.session()
            try:
                ready(connection, self.table, schema, self.create)
            finally:
                connection.close()
        self._checked = True

    def write(self, rows: DataFrame, batch: int) -> None:  # noqa: ARG002
        """Write the rows of one batch; of those with the same key the last."""
        if not self._checked:
            self.check(rows.sparkSession, rows.schema)
        tasks = self.parallelism or rows.sparkSession.sparkContext.defaultParallelism
        newest = last_by_key(rows, self.table.key, tasks)
        map_batches(newest, _Writing(self.server, self.table), "done boolean").collect()


@dataclass(frozen=True, slots=True)
class _Writing:
    """What a task does."""

    server: MySqlServer
    table: Table

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        connection = None
        try:
            for rows in batches:
                if rows.num_rows:
                    refuse_null_keys(rows, self.table.key, self.table.text)
                    connection = connection or self.server.session()
                    self._write(connection, rows)
        finally:
            if connection is not None:
                connection.close()
        yield from ()

    def _write(self, connection: Any, rows: pa.RecordBatch) -> None:
        packet = int(ask(connection, "SELECT @@max_allowed_packet")[0][0])
        for statement in insert(self.table, rows.schema.names).statements(rows, packet):
            self._execute(connection, statement)

    def _execute(self, connection: Any, statement: bytes) -> None:
        for left in reversed(range(_TRIES)):
            try:
                with self.server.explained(self.table.text):
                    connection.query(statement)
            except MySqlUnavailable:
                # Others write to the table too: of a deadlock the server lets one side try again.
                if left == 0 or not connection.open:
                    raise
            else:
                return
