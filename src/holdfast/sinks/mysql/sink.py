"""Tables of MariaDB and MySQL, exactly once, with XA transactions.

A part of an epoch is written in a transaction that is *prepared* before the checkpoint completes:
the server keeps it over crashes, rows unseen, and any connection can commit it later by its name.

**Readers.** By default an epoch is one transaction, and a reader sees all of it or nothing.
``parallelism=n`` writes with up to n connections, which is faster; the n transactions are committed
one after the other, so for a moment a reader may see some of them and not the others.

**Locks.** Rows that were written stay locked until the checkpoint completes, for other writers, not
for readers. Changes of the table itself (``ALTER TABLE``) wait too.

**Types** of a table that is created: strings LONGTEXT, those of a key VARCHAR(255), shorter if they
are more than three; timestamps DATETIME(6), in UTC; arrays, maps, structs and variants JSON;
floats DOUBLE, in which NaN and infinity have no place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from holdfast.sinks.first_tries import FirstTries, tell_unknown
from holdfast.sinks.interface import Handle
from holdfast.sinks.mysql.rows import insert
from holdfast.sinks.mysql.server import MySqlServer, ask, server
from holdfast.sinks.mysql.tables import (
    check_engine,
    check_parallel,
    check_rights,
    check_server,
    ready,
    whole_name,
)
from holdfast.sinks.mysql.upserts import MySqlUpserts
from holdfast.sinks.mysql.xa import Xid, finish, owner, prepare, prepared, start, xid
from holdfast.sinks.tables import Delivery, Table, refuse_delivery
from holdfast.sinks.tables import table as named
from holdfast.sinks.two_phase import Part, TwoPhaseCommitSink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class MySqlSink(TwoPhaseCommitSink):
    """Rows of an epoch in prepared XA transactions."""

    def __init__(
        self, server: MySqlServer, table: Table, *, create: bool = False, parallelism: int = 1
    ) -> None:
        self.server = server
        self.table = table
        self.key = table.key
        self.create = create
        self.parallelism = parallelism
        self._writing: Any = None
        self._packet = 0
        self._control: Any = None
        self._tries = FirstTries()

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002
        """Server, rights, engine, columns and key; make the table if that is wanted."""
        with self.server.explained(self.table.text):
            connection = self._controlling()
            check_server(connection)
            check_rights(self.server, connection)
            found = ready(connection, self.table, schema, self.create)
        check_engine(found, self.table)
        if self.parallelism != 1:
            check_parallel(found, self.table)

    def begin(self, part: Part) -> Handle:
        """``XA START`` on a connection of its own."""
        name = xid(part)
        self._end_writing()
        with self.server.explained(self.table.text):
            self._writing = self.server.session()
            self._packet = int(ask(self._writing, "SELECT @@max_allowed_packet")[0][0])
            start(self._writing, name)
        return _handle(name, part.checkpoint)

    def invoke(self, handle: Handle, rows: pa.RecordBatch) -> None:  # noqa: ARG002
        """``INSERT``, many rows at a time."""
        statements = insert(self.table, rows.schema.names).statements(rows, self._packet)
        with self.server.explained(self.table.text):
            for statement in statements:
                self._writing.query(statement)

    def pre_commit(self, handle: Handle) -> None:
        """``XA PREPARE``; then the connection must go, or nobody else can commit."""
        with self.server.explained(self.table.text):
            prepare(self._writing, _xid(handle))
        self._end_writing()

    def commit(self, handle: Handle) -> None:
        """``XA COMMIT``. What the server does not know has been committed by an earlier try."""
        name = _xid(handle)
        is_first = self._tries.is_first(handle["checkpoint"], name.part)
        if not self._finish("COMMIT", handle) and is_first:
            tell_unknown(handle["checkpoint"], f"{name.owner},{name.part}", str(self.server))

    def recover_and_commit(self, handle: Handle) -> None:
        """The same; an earlier process may have done it."""
        self._finish("COMMIT", handle)

    def abort(self, handle: Handle) -> None:
        """``XA ROLLBACK``; what is not prepared goes with its connection."""
        self._end_writing()
        self._finish("ROLLBACK", handle)

    def _finish(self, how: Literal["COMMIT", "ROLLBACK"], handle: Handle) -> bool:
        try:
            with self.server.explained(self.table.text):
                return finish(self._controlling(), how, _xid(handle))
        except BaseException:
            self.close()  # the next try has a connection of its own
            raise

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        """Those in ``XA RECOVER`` that have the name of this job and sink."""
        with self.server.explained(self.table.text):
            found = prepared(self._controlling())
        ours = [name for name in found if name.owner == owner(job_id, sink)]
        return [_handle(name, name.checkpoint) for name in ours if name.checkpoint is not None]

    def describe(self, handle: Handle) -> str:
        """Which transaction, on which server, for which table."""
        name = _xid(handle)
        return f"XA '{name.owner}','{name.part}' on {self.server}, table {self.table.text}"

    def close(self) -> None:
        """End both connections."""
        self._end_writing()
        _end(self._control)
        self._control = None

    def _controlling(self) -> Any:
        if self._control is None or not self._control.open:
            self._control = self.server.session()
        return self._control

    def _end_writing(self) -> None:
        _end(self._writing)
        self._writing = None


def _end(connection: Any) -> None:
    if connection is not None and connection.open:
        connection.close()


def _handle(name: Xid, checkpoint: int) -> Handle:
    return {"owner": name.owner, "part": name.part, "checkpoint": checkpoint}


def _xid(handle: Handle) -> Xid:
    return Xid(handle["owner"], handle["part"])


def mysql(
    url: str,
    table: str | Sequence[str],
    *,
    key: str | Sequence[str] | None = None,
    create: bool = False,
    delivery: Delivery = "exactly-once",
    parallelism: int | None = None,
) -> MySqlSink | MySqlUpserts:
    """A table of a MariaDB or MySQL server.

    ``url`` is ``mysql://user:password@host:port/database``, with options of PyMySQL behind a ``?``:
    ``unix_socket``, ``connect_timeout``, ``ssl``, ``ssl_ca`` and so on. ``lock_wait_timeout``
    (30 seconds) is how long to wait for rows that others have locked.

    ``key``: columns by which rows replace each other; without it they are appended. ``create``:
    make the table if it is missing. ``delivery="idempotent"`` (with a key) writes every batch at
    once. ``parallelism``: how many connections write; with more than one, readers may see an epoch
    in steps.
    """
    where = server(url)
    target = whole_name(named(table, key), where)
    refuse_delivery(target, delivery, parallelism)
    if delivery == "idempotent":
        return MySqlUpserts(where, target, create, parallelism)
    return MySqlSink(where, target, create=create, parallelism=parallelism or 1)
