"""Whether a server and a table can do what the sink promises, before the first row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.sinks.mysql.server import MySqlRefused, MySqlServer, ask
from holdfast.sinks.mysql.types import Column, column_types, fits
from holdfast.sinks.mysql.versions import refuse_forgetful
from holdfast.sinks.tables import Found, Table, quote, refuse_misfit

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_COLUMNS = (
    "SELECT column_name, data_type, column_type, is_nullable, column_default, extra,"
    " character_set_name, collation_name, coalesce(numeric_precision, datetime_precision, 0),"
    " coalesce(numeric_scale, 0) FROM information_schema.columns"
    " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
_INDEXES = (
    "SELECT index_name, column_name, sub_part FROM information_schema.statistics"
    " WHERE table_schema = %s AND table_name = %s AND non_unique = 0"
    " ORDER BY index_name, seq_in_index"
)
_ENGINE = (
    "SELECT table_type, engine FROM information_schema.tables"
    " WHERE table_schema = %s AND table_name = %s"
)


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as the server describes it."""

    engine: str
    columns: Sequence[Column]
    unique: Mapping[str, Sequence[str]]
    """Columns of each index that lets no two rows be the same."""


def whole_name(target: Table, server: MySqlServer) -> Table:
    """With its database."""
    if len(target.name) > 2:
        raise UsageError(
            "a table's name has at most two parts, database and table", given=target.text
        )
    if len(target.name) == 2:
        return target
    if server.database is None:
        raise UsageError(
            "neither the sink's URL nor the table's name says which database",
            hint="Write mysql://user:password@host:port/database.",
            table=target.text,
        )
    return Table((server.database, *target.name), target.key)


def check_server(connection: Any) -> None:
    """It must be able to keep a prepared transaction."""
    refuse_forgetful(ask(connection, "SELECT version()")[0][0])
    names = "'log_bin', 'binlog_format', 'innodb_flush_log_at_trx_commit', 'wsrep_on'"
    settings = dict(ask(connection, f"SHOW VARIABLES WHERE Variable_name IN ({names})"))
    if settings.get("wsrep_on") == "ON":
        raise UsageError(
            "a Galera cluster has no XA transactions",
            hint='Give the sink delivery="idempotent".',
        )
    if settings.get("innodb_flush_log_at_trx_commit") in ("0", "2"):
        raise UsageError(
            "the server may forget prepared transactions when it or its machine dies",
            hint="SET GLOBAL innodb_flush_log_at_trx_commit = 1, also in its configuration file.",
        )
    if settings.get("log_bin") == "ON" and settings.get("binlog_format") == "STATEMENT":
        raise UsageError(
            "the server's binary log takes statements only",
            hint="SET GLOBAL binlog_format = 'MIXED' (or 'ROW'), also in its configuration file.",
        )


def check_rights(server: MySqlServer, connection: Any) -> None:
    """MySQL 8 lists prepared transactions only for those who may see them."""
    try:
        with server.explained():
            ask(connection, "XA RECOVER")
    except MySqlRefused as refused:
        raise UsageError(
            f"the user must not list prepared transactions: {refused.message}",
            hint="GRANT XA_RECOVER_ADMIN ON *.* TO the user of the sink's URL.",
            server=server,
        ) from refused


def create(connection: Any, target: Table, schema: StructType) -> None:
    """Make the table if it is not there."""
    mariadb = "mariadb" in ask(connection, "SELECT lower(version())")[0][0]
    types = column_types(schema, target.key, 38 if mariadb else 30)
    lines = [f"{_name(name)} {_with_collation(kind, mariadb)}" for name, kind in types.items()]
    lines = [
        f"{line} {'NOT NULL' if name in target.key else 'NULL'}"
        for name, line in zip(types, lines, strict=True)
    ]
    if target.key:
        lines.append(f"PRIMARY KEY ({', '.join(map(_name, target.key))})")
    text = f"CREATE TABLE IF NOT EXISTS {target.quoted('`')} ({', '.join(lines)}) ENGINE=InnoDB"
    connection.query(f"{text} DEFAULT CHARSET=utf8mb4")


def _name(column: str) -> str:
    return quote(column, "`")


def _with_collation(kind: str, mariadb: bool) -> str:
    """Strings are equal only if all their characters are: to Spark "a", "A" and "a " are three."""
    if not kind.startswith(("VARCHAR", "LONGTEXT")):
        return kind
    collation = "utf8mb4_nopad_bin" if mariadb else "utf8mb4_0900_bin"
    return f"{kind} CHARACTER SET utf8mb4 COLLATE {collation}"


def ready(connection: Any, target: Table, schema: StructType, make: bool) -> FoundTable:
    """The table, which takes these rows; made, if that is wanted and it is missing."""
    column_types(schema, target.key)
    if make:
        create(connection, target, schema)
    found = find(connection, target)
    check_table(found, target, schema)
    return found


def find(connection: Any, target: Table) -> FoundTable:
    """Look it up."""
    found = ask(connection, _ENGINE, *target.name)
    if not found:
        raise UsageError(
            f"there is no table {target.text}, or the user has no rights on it",
            hint="Create it, or give the sink create=True.",
        )
    kind, engine = found[0]
    columns = [_column(row) for row in ask(connection, _COLUMNS, *target.name)]
    return FoundTable(engine or kind, columns, _unique(ask(connection, _INDEXES, *target.name)))


def _column(row: Sequence[Any]) -> Column:
    name, kind, full, nullable, default, extra, characters, collation, precision, scale = row
    computed = re.search(r"(VIRTUAL|STORED|PERSISTENT) GENERATED", extra) is not None
    return Column(
        name=name,
        type=kind.lower(),
        full=full,
        optional=nullable == "YES" or default is not None or "auto_increment" in extra,
        computed=computed,
        characters=characters,
        collation=collation,
        precision=precision,
        scale=scale,
    )


def _unique(rows: Sequence[tuple[str, str, int | None]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for index, column, beginning in rows:
        # An index on the beginning of a column says nothing about the whole of it.
        found.setdefault(index, []).append(f"{column}({beginning})" if beginning else column)
    return found


def check_table(found: FoundTable, target: Table, schema: StructType) -> None:
    """Everything that is wrong with the table, at once."""
    columns = _as_rows_call_them(found.columns, schema)
    unique = [_as_spelled(names, columns) for names in found.unique.values()]
    refuse_misfit(
        target,
        schema,
        column_types(schema, target.key),
        {
            name: Found(_full_type(column), column.optional or column.computed)
            for name, column in columns.items()
        },
        unique,
        {
            name: fits(schema[name].dataType, column)
            for name, column in columns.items()
            if name in schema.fieldNames()
        },
    )
    if target.key:
        _refuse_other_unique(target, unique, schema.fieldNames())
        _refuse_blurred_keys(target, columns)


def check_engine(found: FoundTable, target: Table) -> None:
    """Only InnoDB keeps what was prepared."""
    if found.engine.lower() != "innodb":
        raise UsageError(
            f"table {target.text} is {found.engine}, and only InnoDB has XA transactions",
            hint=f"ALTER TABLE {target.quoted('`')} ENGINE=InnoDB",
            table=target.text,
        )


def check_parallel(found: FoundTable, target: Table) -> None:
    """In a second index the server locks the gaps between rows too."""
    if target.key and sorted(found.unique.get("PRIMARY", ())) != sorted(target.key):
        raise UsageError(
            "the key of the sink is not the table's primary key, so its parts would wait for "
            "each other's locks",
            hint="Make it the primary key, or leave `parallelism` out.",
            table=target.text,
        )


def _as_rows_call_them(columns: Sequence[Column], schema: StructType) -> dict[str, Column]:
    """The server does not tell upper from lower case in names of columns."""
    spelled = {name.lower(): name for name in schema.fieldNames()}
    return {spelled.get(column.name.lower(), column.name): column for column in columns}


def _as_spelled(names: Sequence[str], columns: Mapping[str, Column]) -> list[str]:
    spelled = {column.name.lower(): name for name, column in columns.items()}
    return [spelled.get(name.lower(), name) for name in names]


def _full_type(column: Column) -> str:
    if column.computed:
        return f"{column.full}, computed by the server"
    if column.characters in (None, "utf8mb4"):
        return column.full
    return f"{column.full} character set {column.characters}"


def _refuse_other_unique(
    target: Table, unique: Sequence[Sequence[str]], written: Sequence[str]
) -> None:
    others = [names for names in unique if sorted(names) != sorted(target.key)]
    clashing = [names for names in others if {name.split("(")[0] for name in names} <= {*written}]
    if clashing:
        raise UsageError(
            "the table has another unique index, and a row that is equal there would change a "
            f"row with another key: ({', '.join(clashing[0])})",
            hint="Drop that index, or make it the key of the sink.",
            table=target.text,
        )


def _refuse_blurred_keys(target: Table, columns: Mapping[str, Column]) -> None:
    for name in target.key:
        collation = columns[name].collation
        if collation and not collation.endswith("_bin"):
            raise UsageError(
                f"key column {name!r} has the collation {collation}, for which different strings "
                "(such as 'a' and 'A') are the same key",
                hint=f"ALTER TABLE {target.quoted('`')} MODIFY {_name(name)} {columns[name].full} "
                "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
                table=target.text,
            )
