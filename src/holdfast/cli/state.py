"""State as rows of text: what was asked for, and what Spark found."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from holdfast import querylog
from holdfast.cli import columns
from holdfast.cli.export import write_one_parquet
from holdfast.cli.terminal import spinner
from holdfast.errors import QueryLogError, UsageError
from holdfast.querylog.log import open_log
from holdfast.querylog.selection import newest_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEFAULT_LIMIT = 20
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@dataclass(frozen=True, slots=True)
class StateRequest:
    """The options of ``holdfast log state``."""

    directory: str
    operator: int
    store: str | None
    variable: str | None
    batch: int | None
    where: str | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class StateRows:
    """Rows of state: ``rows`` as Spark's JSON, or ``cells`` as text."""

    uri: str
    operator: int
    batch: int
    columns: tuple[str, ...]
    more: bool
    rows: tuple[str, ...] = ()
    cells: tuple[tuple[str | None, ...], ...] = ()

    def to_json(self) -> str:
        """One document. Rows keep every digit that Spark wrote, which a parser would not."""
        head = {k: v for k, v in asdict(self).items() if k not in ("rows", "cells")}
        rows = ",\n".join(f"    {row}" for row in self.rows)
        opened = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
        return f'{opened},\n  "rows": [\n{rows}\n  ]\n}}'


@dataclass(frozen=True, slots=True)
class Exported:
    """What ``--export`` wrote."""

    uri: str
    operator: int
    batch: int
    file: str
    rows: int
    bytes: int


def fetch_rows(request: StateRequest, as_json: bool) -> StateRows:
    """The first rows that fit the request."""
    limit = request.limit or _DEFAULT_LIMIT
    with _opened(request) as (uri, batch, found):
        shown = columns.flattened(found)
        wanted = (
            [columns.as_json(found)]
            if as_json
            else [columns.as_text(path, kind) for path, kind in shown.values()]
        )
        rows = found.select(*wanted).take(limit + 1)
    kept = [tuple(row) for row in rows[:limit]]
    return StateRows(
        uri,
        request.operator,
        batch,
        tuple(shown),
        more=len(rows) > limit,
        rows=tuple(str(row[0]) for row in kept) if as_json else (),
        cells=() if as_json else tuple(kept),
    )


def export_rows(request: StateRequest, file: str) -> Exported:
    """All rows that fit the request, as one Parquet file."""
    with write_one_parquet(file) as target, _opened(request) as (uri, batch, found):
        rows = found if request.limit is None else found.limit(request.limit)
        rows.coalesce(1).write.parquet(str(target.directory))
    return Exported(
        uri, request.operator, batch, str(target.file), target.rows(), target.file.stat().st_size
    )


@contextmanager
def _opened(request: StateRequest) -> Iterator[tuple[str, int, DataFrame]]:
    """Location, batch and rows; what Spark raises inside becomes an error of ours."""
    log = open_log(request.directory)
    batch = newest_batch(log) if request.batch is None else request.batch
    late = _LateSpark(_start_spark)
    try:
        read = querylog.read_state(
            cast("SparkSession", late),
            request.directory,
            operator=request.operator,
            store=request.store,
            variable=request.variable,
            batch=batch,
        )
        found = columns.with_distinct_fields(read)
        with spinner("Reading state"), _quiet_loggers(), _spark_errors(request, found):
            yield (
                log.storage.uri,
                batch,
                found if request.where is None else found.where(request.where),
            )
    finally:
        late.stop()


class _LateSpark:
    """Stands in for a session and starts Spark when the first one is asked for.

    ``read_state`` asks after it has checked the request. So a wrong operator or batch is told at
    once, not after the seconds that Spark takes to start.
    """

    def __init__(self, start: Callable[[], tuple[SparkSession, bool]]) -> None:
        self._start = start
        self._own: SparkSession | None = None

    def newSession(self) -> SparkSession:  # noqa: N802  Spark's name
        """A session of a Spark that runs from now on."""
        session, is_own = self._start()
        self._own = session if is_own else None
        return session.newSession()

    def stop(self) -> None:
        """Stop Spark if it was started here."""
        if self._own is not None:
            self._own.stop()


def _start_spark() -> tuple[SparkSession, bool]:
    from holdfast.spark.session import active_session, local_session

    if (active := active_session()) is not None:
        return active, False
    with spinner("Starting Spark"):
        session = local_session("holdfast log state", **{"spark.sql.session.timeZone": "UTC"})
    if not os.environ.get("HOLDFAST_DEBUG"):
        # Whatever fails is raised too; Spark would print it with the stacks of Java's threads.
        session.sparkContext.setLogLevel("OFF")
    return session, True


@contextmanager
def _quiet_loggers() -> Iterator[None]:
    """What PySpark logs when it raises is said by the error, in one line instead of a hundred."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


@contextmanager
def _spark_errors(request: StateRequest, found: DataFrame) -> Iterator[None]:
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        reason = _reason(error)
        if request.where is not None and not _is_about_files(error):
            raise UsageError(
                f"--where cannot be evaluated: {reason}",
                hint=f"Columns: {', '.join(columns.flattened(found))}.",
                where=request.where,
            ) from error
        raise QueryLogError(
            f"Spark cannot read the state: {reason}",
            hint="See what `holdfast log verify` says. If a query is running, use a newer batch: "
            "Spark may have cleaned this one up.",
            path=request.directory,
        ) from error


def _is_about_files(error: Any) -> bool:
    return str(error.getCondition() or "").startswith(
        ("CANNOT_LOAD_STATE_STORE", "STDS_", "FAILED_READ")
    )


def _reason(error: Exception) -> str:
    """Spark's first line, without the dump of the query below it."""
    text = str(error).strip().partition("\n")[0]
    return text.partition(" SQLSTATE:")[0].rstrip(" .;")
