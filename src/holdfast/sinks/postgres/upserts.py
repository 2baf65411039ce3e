"""PostgreSQL tables by upsert, at once: a batch that comes again after a crash does no harm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.sinks.arrow_tasks import map_batches
from holdfast.sinks.keys import last_by_key, refuse_missing_key, refuse_null_keys
from holdfast.sinks.postgres.catalog import prepare_table
from holdfast.sinks.postgres.session import Server
from holdfast.sinks.postgres.writing import BEGIN, writing
from holdfast.sinks.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class PostgresUpserts:
    """A table whose rows are replaced by key, batch by batch."""

    def __init__(
        self, server: Server, table: Table, *, create: bool = False, parallelism: int | None = None
    ) -> None:
        self._server = server
        self._table = table
        self._create = create
        self._parallelism = parallelism
        self._checked = False

    def __repr__(self) -> str:
        return f"PostgresUpserts({self._table.text!r})"

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002
        """The table must be there and fit."""
        refuse_missing_key(self._table.key, schema)
        session = self._server.connect()
        try:
            prepare_table(session, self._table, schema, create=self._create)
        finally:
            session.close()
        self._checked = True

    def write(self, rows: DataFrame, batch: int) -> None:  # noqa: ARG002
        """Upsert the rows of a batch on executors, one transaction for each task."""
        if not self._checked:
            self.check(rows.sparkSession, rows.schema)
        tasks = self._parallelism or rows.sparkSession.sparkContext.defaultParallelism
        newest = last_by_key(rows, self._table.key, tasks)
        map_batches(newest, _UpsertTask(self._server, self._table), "done boolean").collect()


@dataclass(frozen=True, slots=True)
class _UpsertTask:
    server: Server
    table: Table

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session = None
        try:
            for rows in batches:
                if rows.num_rows == 0:
                    continue
                refuse_null_keys(rows, self.table.key, self.table.text)
                if session is None:
                    session = self.server.connect()
                    session.run(BEGIN)
                    target = writing(session, self.table)
                target.write(rows)
            if session is not None:
                session.run("COMMIT")
        finally:
            if session is not None:
                session.close()
        yield from ()
