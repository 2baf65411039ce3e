"""PostgreSQL tables, exactly once: ``PREPARE TRANSACTION`` at the barrier, ``COMMIT PREPARED`` when
the checkpoint is complete. Prepared transactions survive crashes and restarts of the server.

Without a key rows are appended (``COPY``); with one they replace those of the same key
(``INSERT … ON CONFLICT``).

**What a reader sees.** An epoch is one transaction, so it appears as a whole. With
``parallelism=n`` it is written by n tasks in n transactions that are committed one after the other:
a reader may for a moment see the rows of some and not yet those of others. More than one pays only
where the server has cores to spare: with two cores for all, two parts were no faster than one
(``bench/results.md``).

**Rights.** The user needs INSERT, with a key also SELECT and UPDATE. Commits and aborts must come
from the user who prepared, or from a superuser.

**Locks.** A prepared transaction holds the locks on its rows until it is committed or aborted.
Other writers of the same keys wait that long; readers never do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, UsageError
from holdfast.sinks.first_tries import FirstTries, tell_unknown
from holdfast.sinks.interface import Handle
from holdfast.sinks.postgres.catalog import Catalogue, prepare_table, refuse_too_few_prepared
from holdfast.sinks.postgres.session import Server, Session
from holdfast.sinks.postgres.upserts import PostgresUpserts
from holdfast.sinks.postgres.writing import BEGIN, Writing, writing
from holdfast.sinks.tables import Delivery, Table, refuse_delivery
from holdfast.sinks.tables import table as named_table
from holdfast.sinks.two_phase import Part, TwoPhaseCommitSink, checkpoint_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_NAME_BYTES = 199
"""The longest name of a prepared transaction."""

_PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid"
_ABOUT = "SELECT owner, prepared FROM pg_prepared_xacts WHERE gid = %s"


class PostgresSink(TwoPhaseCommitSink):
    """A table whose rows appear when their checkpoint completes."""

    def __init__(
        self, server: Server, table: Table, *, create: bool = False, parallelism: int | None = None
    ) -> None:
        self.key = table.key
        self.parallelism = parallelism or 1
        self._server = server
        self._table = table
        self._create = create
        self._session: Session | None = None
        self._writing: Writing | None = None
        self._tries = FirstTries()

    def __repr__(self) -> str:
        return f"PostgresSink({self._table.text!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None, "_writing": None}

    def check(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002
        """The server must be able to prepare, the table must be there and fit."""
        session = self._connected()
        refuse_too_few_prepared(session, self.parallelism or 1)
        prepare_table(session, self._table, schema, create=self._create)
        Catalogue(session, self._table).refuse_unlogged()

    def begin(self, part: Part) -> Handle:
        """Open a transaction on a connection of its own."""
        refuse_long_name(part)
        self.close()
        session = self._connected()
        session.run(BEGIN)
        self._writing = writing(session, self._table)
        return {"checkpoint": part.checkpoint, "gid": part.name}

    def invoke(self, handle: Handle, rows: pa.RecordBatch) -> None:
        """Send rows to the server."""
        if self._writing is None:
            raise UsageError("no transaction is open here", gid=handle["gid"])
        self._writing.write(rows)

    def pre_commit(self, handle: Handle) -> None:
        """Prepare: from here on the server keeps the transaction whatever happens."""
        if self._writing is None:
            raise UsageError("no transaction is open here", gid=handle["gid"])
        self._writing.finish()
        self._connected().prepare(handle["gid"])
        self._writing = None

    def commit(self, handle: Handle) -> None:
        """The rows appear. What the server does not know has been committed by an earlier try."""
        is_first = self._tries.is_first(handle["checkpoint"], handle["gid"])
        if not self._connected().finish("COMMIT", handle["gid"]) and is_first:
            tell_unknown(handle["checkpoint"], handle["gid"], self._server.text)

    def recover_and_commit(self, handle: Handle) -> None:
        """The same; an earlier process may have done it."""
        self._connected().finish("COMMIT", handle["gid"])

    def abort(self, handle: Handle) -> None:
        """The rows are forgotten, whether they have been prepared or not."""
        if self._writing is not None:
            self.close()
        self._connected().finish("ROLLBACK", handle["gid"])

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        """What the server lists as prepared. What was only begun ends with its connection."""
        found = []
        for (gid,) in self._connected().rows(_PREPARED):
            checkpoint = checkpoint_of(gid, job_id, sink)
            if checkpoint is not None:
                found.append({"checkpoint": checkpoint, "gid": gid})
        return found

    def describe(self, handle: Handle) -> str:
        """Transaction, table, database."""
        return f"{handle['gid']}: table {self._table.text}, {self._server.text}"

    def inquire(self, handle: Handle) -> str:
        """The same with its owner, and since when."""
        what = self.describe(handle)
        try:
            about = self._connected().rows(_ABOUT, [handle["gid"]])
        except HoldfastError as error:
            return f"{what}; the server does not answer: {error.message}"
        finally:
            self.close()
        if not about:
            return f"{what}; the server does not know it (any more)"
        owner, since = about[0]
        return (
            f"{what}; owner {owner}, prepared since {since.isoformat(sep=' ', timespec='seconds')}"
        )

    def close(self) -> None:
        """End the connection; the server rolls back what is open and not prepared."""
        session, self._session, self._writing = self._session, None, None
        if session is not None:
            session.close()

    def _connected(self) -> Session:
        if self._session is None:
            self._session = self._server.connect()
        return self._session


def refuse_long_name(part: Part) -> None:
    """The server's limit leaves well over a hundred bytes for the sink's uid."""
    size = len(part.name.encode())
    if size > _NAME_BYTES:
        raise UsageError(
            f"the name of a transaction has {size} bytes, PostgreSQL allows {_NAME_BYTES}",
            hint=f"Give the sink a uid that is {size - _NAME_BYTES} bytes shorter.",
            sink=part.sink,
        )


def postgres(
    url: str,
    table: str | Sequence[str],
    *,
    key: str | Sequence[str] | None = None,
    create: bool = False,
    delivery: Delivery = "exactly-once",
    parallelism: int | None = None,
) -> PostgresSink | PostgresUpserts:
    """A PostgreSQL table.

    url          ``postgresql://user:password@host:port/database``, with libpq's options after ``?``
    table        ``"name"``, ``"schema.name"``, or a sequence if a name has dots in it
    key          rows replace those with the same values here; without it they are appended
    create       create the table, with the key as primary key, if it is missing
    delivery     ``exactly-once``: rows appear when their checkpoint completes; the server must have
                 ``max_prepared_transactions``. ``idempotent``: needs a key; rows appear at once,
                 and are written again after a crash
    parallelism  how many tasks write at once. Exactly once: 1 if not given, as with more a reader
                 could see a part of an epoch. Idempotent: as many as can run
    """
    target = named_table(table, key)
    server = Server(url)
    refuse_delivery(target, delivery, parallelism)
    if delivery == "idempotent":
        return PostgresUpserts(server, target, create=create, parallelism=parallelism)
    return PostgresSink(server, target, create=create, parallelism=parallelism)
