"""Reading what a job has put into databases, each with its own driver."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from tests.faults.jobs.judge import Recount, Rows
from tests.faults.jobs.specs import JobSpec, RegionSpec


def connect(kind: str, place: str) -> Any:
    if kind == "sqlite":
        return sqlite3.connect(place)
    if kind == "postgres":
        import psycopg

        return psycopg.connect(place)
    import pymysql

    parts = urlsplit(place)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        database=parts.path.strip("/"),
    )


def rows_in(kind: str, place: str, region: RegionSpec) -> list[tuple[Any, ...]]:
    """Nothing if there is no such table yet."""
    columns = "key, count" if region.kind == "count" else "s, n"
    mark = "`" if kind == "mysql" else '"'
    quoted = ", ".join(f"{mark}{name}{mark}" for name in columns.split(", "))
    with closing(connect(kind, place)) as connection:
        if not has_table(kind, connection, f"rows_{region.uid}"):
            return []
        cursor = connection.cursor()
        cursor.execute(f"SELECT {quoted} FROM {mark}rows_{region.uid}{mark}")
        return list(cursor.fetchall())


def has_table(kind: str, connection: Any, table: str) -> bool:
    query = {
        "sqlite": "SELECT count(*) FROM sqlite_master WHERE name = ?",
        "postgres": "SELECT count(*) FROM pg_tables WHERE tablename = %s",
        "mysql": "SELECT count(*) FROM information_schema.tables WHERE table_name = %s",
    }[kind]
    cursor = connection.cursor()
    cursor.execute(query, (table,))
    return bool(cursor.fetchone()[0])


_PREPARED = {
    "postgres": "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()",
    "mysql": "XA RECOVER",  # of the whole server: names tell whose they are
}


def prepared(kind: str, place: str, job_id: str = "") -> list[str]:
    """Transactions of a job, or of all, that the server holds prepared."""
    if kind == "sqlite":
        return []
    with closing(connect(kind, place)) as connection:
        cursor = connection.cursor()
        cursor.execute(_PREPARED[kind])
        return [str(row) for row in cursor.fetchall() if job_id in str(row)]


def check_stores(spec: JobSpec, low: Recount, high: Recount) -> None:
    """After a crash each sink shows what one checkpoint covers, or the other: whole epochs.

    A sink is never further behind, as it has one open transaction.
    """
    for kind, place in spec.stores.items():
        for region in spec.with_sink:
            found = rows_in(kind, place, region)
            where = f"{kind}, region {region.uid}"
            if region.kind == "count":
                counts = dict(found)
                assert len(counts) == len(found), f"{where}: a key twice"
                assert counts in (low.counts(region), high.counts(region)), where
            else:
                rows: Rows = Counter(found)
                least, most = low.output(region), high.output(region)
                assert rows in (least, most), (
                    f"{where}: {len(rows)} rows; beyond the first of {len(least)} rows: "
                    f"{len(rows - least)}, missing in the second of {len(most)}: {len(most - rows)}"
                )


def check_all(spec: JobSpec, recount: Recount, job_id: str = "") -> None:
    """At the end every row is there once, and no transaction of the job is left."""
    check_stores(spec, recount, recount)
    for kind, place in spec.stores.items():
        assert prepared(kind, place, job_id) == [], f"{kind}: transactions left behind"
