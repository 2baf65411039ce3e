"""Connections to PostgreSQL: their settings, and their failures told without the password."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.errors import EnvironmentProblem, HoldfastError, StorageError, UsageError

if TYPE_CHECKING:
    import psycopg

_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "holdfast",
    # Who talks to a machine that has vanished should notice within a minute.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


class PostgresFailure(StorageError):
    """The server cannot be reached, has ended the connection or lets us wait too long."""

    code = "POSTGRES"


@dataclass(frozen=True, slots=True)
class Server:
    """Where a database is. The URL may hold a password, so it is never shown."""

    url: str = field(repr=False)
    lock_timeout: float = 30.0
    """Seconds after which waiting for a lock is a failure."""

    @property
    def text(self) -> str:
        """For people: database and host."""
        given = self._given()
        host = given.get("host") or given.get("hostaddr") or "the local socket"
        port = f":{given['port']}" if "port" in given else ""
        return (
            f"database {given.get('dbname') or given.get('user') or 'by default'} at {host}{port}"
        )

    def connect(self) -> Session:
        """Open a connection."""
        psycopg = import_psycopg()
        settings = {**_DEFAULTS, **self._given(), "client_encoding": "utf8"}
        with self._telling("cannot connect"):
            # Statements prepared on the server would not get through a connection pool.
            connection = psycopg.connect(**settings, autocommit=True, prepare_threshold=None)
            connection.execute(
                # Rows have instants in UTC; waiting for ever would look like a job that hangs.
                f"SET TimeZone = 'UTC'; SET lock_timeout = {int(self.lock_timeout * 1000)}"
            )
        return Session(self, connection)

    def _given(self) -> dict[str, Any]:
        psycopg = import_psycopg()
        try:
            found = psycopg.conninfo.conninfo_to_dict(self.url)
        except psycopg.Error:
            # Its message would quote pieces of the URL.
            raise UsageError(
                "this is not the address of a PostgreSQL database",
                hint="Write postgresql://user:password@host:port/database.",
            ) from None
        return {name: value for name, value in found.items() if value is not None}

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        psycopg = import_psycopg()
        try:
            yield
        except psycopg.Error as error:
            raise told(error, what, self.text, self._given().get("password")) from None


@dataclass(frozen=True, slots=True)
class Session:
    """One connection, used by one thread. Statements commit at once unless told to begin."""

    server: Server
    connection: psycopg.Connection[Any]

    def run(self, statement: str, values: Sequence[Any] | None = None) -> None:
        """Execute a statement that returns nothing."""
        with self.telling():
            self.connection.execute(statement.encode(), values)

    def rows(self, query: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """The answer to a query."""
        with self.telling():
            return self.connection.execute(query.encode(), values).fetchall()

    def prepare(self, transaction: str) -> None:
        """End the open transaction so that anybody can commit it later."""
        self.run(f"PREPARE TRANSACTION {self._literal(transaction)}")

    def finish(self, verb: str, transaction: str) -> bool:
        """``COMMIT`` or ``ROLLBACK`` what was prepared; whether the server knew it."""
        unknown = import_psycopg().errors.UndefinedObject
        with self.telling(), suppress(unknown):
            self.connection.execute(f"{verb} PREPARED {self._literal(transaction)}".encode())
            return True
        return False

    def telling(self) -> Any:
        """A context in which the driver's errors become ours."""
        return self.server._telling("PostgreSQL refused or was lost")

    def close(self) -> None:
        """The server rolls back what is open."""
        with suppress(Exception):  # it may have gone long ago
            self.connection.close()

    def _literal(self, text: str) -> str:
        from psycopg import sql

        return sql.Literal(text).as_string(self.connection)


def told(error: psycopg.Error, what: str, where: str, password: str | None) -> HoldfastError:
    """The driver's error as ours: whether trying again helps, and what to do."""
    psycopg = import_psycopg()
    message = f"{what} ({where}): {_words(error)}"
    if password:
        message = message.replace(password, "***")
    if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected):
        return PostgresFailure(message, hint=_LOCKED, sqlstate=error.sqlstate)
    if isinstance(error, psycopg.errors.OutOfMemory) and "prepared" in message:
        return PostgresFailure(message, hint=more_prepared(0), sqlstate=error.sqlstate)
    if isinstance(error, psycopg.DataError) and error.sqlstate in ("22021", "22P05"):
        return UsageError(message, hint=_NUL, sqlstate=error.sqlstate)
    if isinstance(error, _refusals()):
        return UsageError(message, hint=_REFUSED, sqlstate=error.sqlstate)
    return PostgresFailure(message, hint=_LOST, sqlstate=error.sqlstate)


_LOCKED = (
    "Another transaction holds a lock on these rows or on the table. If it is one that a job left "
    "behind, `holdfast transactions list` shows it, and `holdfast transactions abort` ends it. "
    "pg_locks and pg_prepared_xacts show all."
)
_NUL = (
    "Text in PostgreSQL cannot hold the character NUL, nor bytes that are not UTF-8. Remove them "
    "in the region, or make the column binary."
)
_REFUSED = "Change the rows in the region, or the table. Nothing of this epoch was written."
_LOST = "See whether the server runs and can be reached. It is tried again."


def more_prepared(wanted: int) -> str:
    """What an administrator must do so that transactions can be prepared."""
    number = max(wanted, 64)
    return (
        f"As a superuser run ALTER SYSTEM SET max_prepared_transactions = {number}; "
        "and restart the server. All jobs on the server share this number."
    )


def _refusals() -> tuple[type[Exception], ...]:
    """Errors about the rows or the statement, which would come again."""
    psycopg = import_psycopg()
    return (
        psycopg.DataError,
        psycopg.IntegrityError,
        psycopg.ProgrammingError,
        psycopg.NotSupportedError,
    )


def _words(error: psycopg.Error) -> str:
    told = error.diag
    parts = [told.message_primary or str(error).strip(), told.message_detail, told.context]
    return "; ".join(" ".join(part.split()) for part in parts if part)


def import_psycopg() -> Any:
    """The driver, or how to get it."""
    try:
        import psycopg
    except ImportError as error:
        raise EnvironmentProblem(
            f"the PostgreSQL sink needs psycopg: {error}",
            hint="Run pip install 'holdfast[postgres]', on executors too.",
        ) from None
    return psycopg
