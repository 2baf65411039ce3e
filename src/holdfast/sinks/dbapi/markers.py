"""The table that says which epochs have been written.

    job, sink, checkpoint    the epoch; together the primary key, so that of two writers one loses
    written, at              how many rows it had, and when, for people

Epochs of a sink are committed in the order of their checkpoints, one after the other, and a job
never gives out the number of a checkpoint twice. So an epoch has been written if its marker *or a
newer one* is there. Old markers are not needed, whatever old checkpoint a job is restored from: the
newest 100 checkpoints are kept for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.sinks.dbapi.statements import Dialect, insert
from holdfast.sinks.tables import Table
from holdfast.sinks.write_ahead import Marker

KEPT = 100
_PRIMARY_KEY = ("job", "sink", "checkpoint")
_COLUMNS = {
    # All databases have these types; a number of 19 digits holds 64 bits.
    "job": "VARCHAR(64) NOT NULL",
    "sink": "VARCHAR(100) NOT NULL",
    "checkpoint": "NUMERIC(19) NOT NULL",
    "written": "NUMERIC(19) NOT NULL",
    "at": "VARCHAR(40) NOT NULL",
}


@dataclass(frozen=True, slots=True)
class Markers:
    """The table, over a DB-API connection. The caller begins and ends transactions."""

    table: Table
    dialect: Dialect

    def exists(self, connection: Any) -> bool:
        """Whether the table can be read. After ``False`` the transaction must be rolled back."""
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(f"SELECT * FROM {self._bare} WHERE 1 = 0")
                cursor.fetchall()
        except Exception:
            return False
        return True

    def create(self, connection: Any) -> None:
        """Make the table."""
        mark = self.dialect.mark
        columns = [f"{mark}{name}{mark} {self._exact(kind)}" for name, kind in _COLUMNS.items()]
        key = ", ".join(f"{mark}{name}{mark}" for name in _PRIMARY_KEY)
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"CREATE TABLE {self._bare} ({', '.join(columns)}, PRIMARY KEY ({key}))")

    def _exact(self, kind: str) -> str:
        """To MariaDB and MySQL ``out`` and ``Out`` are the same, unless they are told otherwise."""
        if self.dialect.mark != "`" or not kind.startswith("VARCHAR"):
            return kind
        name, rest = kind.split(" ", 1)
        return f"{name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin {rest}"

    @property
    def _bare(self) -> str:
        # Statements without parameters are not searched for placeholders.
        return self.table.quoted(self.dialect.mark)

    def has(self, connection: Any, marker: Marker) -> bool:
        """Whether the epoch, or one after it, has been written."""
        where = " AND ".join(self.dialect.equal(("job", "sink")))
        newest = f"MAX({self.dialect.name('checkpoint')})"
        text = f"SELECT {newest} FROM {self.dialect.table(self.table)} WHERE {where}"
        with closing(connection.cursor()) as cursor:
            self._execute(cursor, text, (marker.job_id, marker.sink))
            (found,) = cursor.fetchone()
        return found is not None and int(found) >= marker.checkpoint

    def add(self, connection: Any, marker: Marker) -> None:
        """Mark the epoch as written; fails or waits if another writer is about to."""
        values = (*_key(marker), 0, datetime.now(UTC).isoformat(" ", "milliseconds"))
        with closing(connection.cursor()) as cursor:
            self._execute(cursor, insert(self.dialect, self.table, tuple(_COLUMNS)).text, values)

    def finish(self, connection: Any, marker: Marker, written: int) -> None:
        """Note the number of rows, and forget what is long past."""
        same = self.dialect.equal(_PRIMARY_KEY, first=1)
        set_rows = f"SET {self.dialect.equal(('written',))[0]}"
        table = self.dialect.table(self.table)
        older = [
            *self.dialect.equal(("job", "sink")),
            f"{self.dialect.name('checkpoint')} < {self.dialect.placeholders(1, first=2)[0]}",
        ]
        with closing(connection.cursor()) as cursor:
            text = f"UPDATE {table} {set_rows} WHERE {' AND '.join(same)}"
            self._execute(cursor, text, (written, *_key(marker)))
            text = f"DELETE FROM {table} WHERE {' AND '.join(older)}"
            past = marker.checkpoint - KEPT
            self._execute(cursor, text, (marker.job_id, marker.sink, past))

    def remove(self, connection: Any, marker: Marker) -> None:
        """Forget one."""
        where = " AND ".join(self.dialect.equal(_PRIMARY_KEY))
        with closing(connection.cursor()) as cursor:
            text = f"DELETE FROM {self.dialect.table(self.table)} WHERE {where}"
            self._execute(cursor, text, _key(marker))

    def _execute(self, cursor: Any, text: str, values: Sequence[Any]) -> None:
        cursor.execute(text, self.dialect.bind([values])[0])


def _key(marker: Marker) -> tuple[str, str, int]:
    return marker.job_id, marker.sink, marker.checkpoint
