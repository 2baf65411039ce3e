"""The way to a MariaDB or MySQL server: its address, sessions with it, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from holdfast.errors import EnvironmentProblem, StorageError, UsageError

_IDLE = 600
"""Seconds until the server drops a session that says nothing: what a machine that vanished has
begun is then rolled back, and what it has prepared can be finished from elsewhere."""

# Values that do not fit are refused, never cut; a zero stays one in a column that counts by itself;
# backslashes escape, whatever the server is set to. Instants are written in UTC.
_SESSION = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION',"
    f" time_zone = '+00:00', wait_timeout = {_IDLE}"
)
# No locks on the gaps between rows: parts that write other rows must not wait for each other.
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"

_LOCKED = {1205, 1213}
_TRANSIENT = {1040, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1203, 1290, 1317, 1836, 1927, 3169}
_CLIENT_SIDE = range(2000, 3000)
_WRONG_ADDRESS = {1044, 1045, 1049, 1698}


class MySqlUnavailable(StorageError):
    """The server cannot do it now."""

    code = "MYSQL_UNAVAILABLE"


class MySqlRefused(StorageError):
    """The server does not take it, now or later."""

    code = "MYSQL_REFUSED"
    retryable = False


@dataclass(frozen=True, slots=True)
class MySqlServer:
    """Where it is and who asks."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str | None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further arguments of ``pymysql.connect``."""
    lock_wait: int = 30
    """Seconds until a statement gives up waiting for rows or tables that others have locked."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database or ''}"

    def session(self) -> Any:
        """A new connection, set up; every statement is its own transaction until ``XA START``."""
        pymysql = driver()
        with self.explained():
            connection = pymysql.connect(
                host=self.host,
                port=self.port,
                user=self.user,
                # As text the driver would send it in Latin-1.
                password=self.password.encode(),
                database=self.database,
                charset="utf8mb4",
                autocommit=True,
                **{"read_timeout": _IDLE, "write_timeout": _IDLE, **self.options},
            )
            try:
                connection.query(f"{_SESSION}, {self._patience}")
                connection.query(_ISOLATION)
            except BaseException:
                connection.close()
                raise
        return connection

    @property
    def _patience(self) -> str:
        return f"innodb_lock_wait_timeout = {self.lock_wait}, lock_wait_timeout = {self.lock_wait}"

    @contextmanager
    def explained(self, table: str | None = None) -> Iterator[None]:
        """Errors of the driver become ours."""
        pymysql = driver()
        try:
            yield
        except pymysql.err.MySQLError as error:
            _refuse(error, {"server": str(self), **({"table": table} if table else {})})


def ask(connection: Any, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows that a statement answers with."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def number_of(error: BaseException) -> int:
    """The server's or driver's number for an error; 0 without one."""
    number = error.args[0] if error.args else 0
    return number if isinstance(number, int) else 0


def _refuse(error: Exception, ids: dict[str, Any]) -> NoReturn:
    pymysql = driver()
    number = number_of(error)
    text = str(error.args[-1] if error.args else error)
    if number in _LOCKED:
        raise MySqlUnavailable(
            f"another transaction holds rows or tables that are needed here: {text}",
            hint="It is tried again. If that does not help: a transaction that was prepared and "
            "forgotten keeps its locks. `holdfast transactions list` shows those of a job, "
            "`XA RECOVER` all of them.",
            **ids,
        ) from error
    if number in _WRONG_ADDRESS:
        raise UsageError(
            f"the server does not let this user in: {text}",
            hint="Check user, password and database in the sink's URL, and the user's rights.",
            **ids,
        ) from error
    if (
        number in _TRANSIENT
        or number in _CLIENT_SIDE
        or isinstance(error, pymysql.err.InterfaceError)
    ):
        raise MySqlUnavailable(
            f"the server cannot be reached or is busy: {text}",
            hint="Start it, or look at its log. Rows that wait for it are kept.",
            **ids,
        ) from error
    raise MySqlRefused(f"the server refuses this: {text}", number=number, **ids) from error


def driver() -> Any:
    """PyMySQL, which is not needed by those who have no such sink."""
    try:
        import pymysql
    except ImportError as error:
        raise EnvironmentProblem(
            "the package PyMySQL is not installed",
            hint="pip install 'holdfast[mysql]', also where the executors run.",
        ) from error
    return pymysql


def server(url: str) -> MySqlServer:
    """From ``mysql://user:password@host:port/database?option=value``."""
    parts = urlsplit(url)
    if parts.scheme not in ("mysql", "mariadb") or not parts.hostname or not parts.username:
        raise _no_address()
    options = _options(parts.query)
    return MySqlServer(
        host=parts.hostname,
        port=_port(parts) or 3306,
        user=unquote(parts.username),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.strip("/")) or None,
        lock_wait=options.pop("lock_wait_timeout", 30),
        options=options,
    )


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise _no_address() from None


def _no_address() -> UsageError:
    # It may have a password in it: it is not shown.
    return UsageError(
        "this is not the address of a MariaDB or MySQL server",
        hint="Write mysql://user:password@host:port/database. Characters such as @ : / in a "
        "password are written as %40 %3A %2F.",
    )


def _options(query: str) -> dict[str, Any]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    if given.pop("charset", "utf8mb4") != "utf8mb4":
        raise UsageError(
            "the character set of the connection is always utf8mb4",
            hint="Leave `charset` out of the sink's URL.",
        )
    unknown = sorted(set(given) - set(_OPTIONS))
    if unknown:
        raise UsageError(
            f"the sink's URL has unknown options: {', '.join(unknown)}",
            hint=f"Known are {', '.join(_OPTIONS)}.",
        )
    options = {name: _OPTIONS[name](value) for name, value in given.items()}
    if "ssl" in options:
        # The driver takes a non-empty dictionary for "never without".
        options["ssl"] = {"verify_mode": "none"} if options["ssl"] else None
    return options


def _seconds(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise UsageError("a time in the sink's URL is a whole number of seconds", given=text)
    return int(text)


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0", ""):
        raise UsageError("a switch in the sink's URL is `true` or `false`", given=text)
    return text.lower() in ("true", "1", "")


_OPTIONS: dict[str, Callable[[str], Any]] = {
    "lock_wait_timeout": _seconds,
    "unix_socket": str,
    "connect_timeout": _seconds,
    "read_timeout": _seconds,
    "write_timeout": _seconds,
    "bind_address": str,
    "ssl": _yes_or_no,
    "ssl_ca": str,
    "ssl_cert": str,
    "ssl_key": str,
    "ssl_key_password": str,
    "ssl_verify_cert": _yes_or_no,
    "ssl_verify_identity": _yes_or_no,
    "ssl_disabled": _yes_or_no,
}
