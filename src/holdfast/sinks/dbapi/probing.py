"""Whether a driver takes values of the rows' types: DB-API does not tell, so it is tried.

``SELECT ?`` is asked with a value of each type. A driver that does not know the type would refuse
it when an epoch is committed, and then for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.sinks.dbapi.statements import Dialect
from holdfast.sinks.values import Values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_SAMPLES: dict[str, Any] = {
    "binary": b"\x00",
    "decimal": Decimal("1.5"),
    "date": date(2026, 1, 31),
    "timestamp": datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
    "timestamp_ntz": datetime(2026, 1, 31, 12, 30),
    "time": time(12, 30),
    "daytimeinterval": timedelta(hours=1),
}
"""By Spark's names of types. Numbers, strings and booleans are known to every driver."""


def refuse_unknown_types(
    connection: Any, dialect: Dialect, schema: StructType, values: Callable[[pa.Array], Values]
) -> None:
    """Columns whose values the driver does not know how to send; all of them in one error."""
    import pyarrow as pa

    problems = []
    for field in schema.fields:
        sample = _SAMPLES.get(field.dataType.typeName())
        # The control: the database may have another way to select a value, or be gone by now.
        if (
            sample is not None
            and not _takes(connection, dialect, values(pa.array([sample]))[0])
            and _takes(connection, dialect, 1)
        ):
            problems.append(f"column {field.name!r} is {field.dataType.simpleString()}")
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(
            f"the database's module does not take these values:{lines}",
            hint="Cast the columns in the region, for instance to string, or let connect() teach "
            "the module their types.",
        )


def _takes(connection: Any, dialect: Dialect, value: Any) -> bool:
    try:
        with closing(connection.cursor()) as cursor:
            text = f"SELECT {dialect.placeholders(1)[0]}"
            cursor.execute(text, dialect.bind([(value,)])[0])
            cursor.fetchall()
    except Exception:  # each module has its own
        connection.rollback()
        return False
    return True
