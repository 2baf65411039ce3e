"""Where rows go, and what is promised. ``docs/sinks.md`` has the details.

Exactly once, visible when their checkpoint completes:
``files(path)``               Parquet, JSON lines or CSV
``postgres(url, table)``      PostgreSQL; with ``key`` rows replace older ones
``mysql(url, table)``         MariaDB and MySQL
``sqlite(path, table)``       SQLite
``kafka(servers, topic)``     Kafka topics, by transactions
``write_ahead(connect, table)``  any other database with a DB-API driver

With ``delivery="idempotent"`` and a key the databases show rows at once, and write them again after
a crash. At least once: ``console()``, ``foreach_batch(fn)``, Kafka with
``delivery="at-least-once"``.

Of your own: subclass ``TwoPhaseCommitSink`` for a store that can prepare a transaction,
``WriteAheadSink`` for one that cannot.
"""

from typing import Any

from holdfast.sinks.distributed import Distributed
from holdfast.sinks.files.manifest import CommittedEpoch
from holdfast.sinks.files.sink import FilesSink, committed_epochs, committed_files, files
from holdfast.sinks.interface import (
    CheckedSink,
    ClaimingSink,
    DroppingSink,
    Epoch,
    EpochSegment,
    EpochSink,
    Handle,
    InquiringSink,
    PlainSink,
)
from holdfast.sinks.kafka.sink import kafka
from holdfast.sinks.mysql.sink import mysql
from holdfast.sinks.plain import ForeachBatchSink, console, foreach_batch
from holdfast.sinks.postgres.sink import postgres
from holdfast.sinks.sqlite.sink import sqlite
from holdfast.sinks.two_phase import Part, TwoPhaseCommitSink, checkpoint_of
from holdfast.sinks.write_ahead import Marker, WriteAhead, WriteAheadSink

from holdfast.sinks.dbapi.sink import write_ahead  # isort: skip

__all__ = [
    "CheckedSink",
    "ClaimingSink",
    "CommittedEpoch",
    "Distributed",
    "DroppingSink",
    "Epoch",
    "EpochSegment",
    "EpochSink",
    "FilesSink",
    "ForeachBatchSink",
    "Handle",
    "InquiringSink",
    "Marker",
    "Part",
    "PlainSink",
    "TwoPhaseCommitSink",
    "WriteAheadSink",
    "checkpoint_of",
    "committed_epochs",
    "committed_files",
    "console",
    "files",
    "for_runtime",
    "foreach_batch",
    "kafka",
    "mysql",
    "postgres",
    "sqlite",
    "write_ahead",
]


def for_runtime(sink: Any) -> Any:
    """What a user gives to a job, as the runtime drives it."""
    if isinstance(sink, TwoPhaseCommitSink):
        return Distributed(sink)
    if isinstance(sink, WriteAheadSink):
        return WriteAhead(sink)
    return sink
