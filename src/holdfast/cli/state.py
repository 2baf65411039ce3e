"""State as rows of text: what was asked for, and what Spark found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from holdfast import querylog
from holdfast.cli import columns
from holdfast.cli.export import write_one_parquet
from holdfast.cli.late_spark import FOR_SHORT_RUNS, LateSpark, first_line, quiet_logging
from holdfast.cli.terminal import spinner
from holdfast.errors import QueryLogError, UsageError
from holdfast.querylog.log import open_log
from holdfast.querylog.selection import newest_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEFAULT_LIMIT = 20
_ABOUT_FILES = ("CANNOT_LOAD_STATE_STORE", "STDS_", "FAILED_READ", "STATE_STORE")


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
    with _opened(request, FOR_SHORT_RUNS) as (uri, batch, found):
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
    with write_one_parquet(file) as target, _opened(request, "") as (uri, batch, found):
        rows = found if request.limit is None else found.limit(request.limit)
        rows.coalesce(1).write.parquet(str(target.directory))
    return Exported(
        uri, request.operator, batch, str(target.file), target.rows(), target.file.stat().st_size
    )


@contextmanager
def _opened(request: StateRequest, java_options: str) -> Iterator[tuple[str, int, DataFrame]]:
    """Location, batch and rows; what Spark raises inside becomes an error of ours."""
    log = open_log(request.directory)
    batch = newest_batch(log) if request.batch is None else request.batch
    with quiet_logging(), _spark_failures(request), LateSpark(java_options) as spark:
        read = querylog.read_state(
            cast("SparkSession", spark),
            request.directory,
            operator=request.operator,
            store=request.store,
            variable=request.variable,
            batch=batch,
        )
        found = columns.with_distinct_fields(read)
        with spinner("Reading state"), _condition_failures(request, found):
            chosen = found if request.where is None else found.where(request.where)
            yield log.storage.uri, batch, chosen


@contextmanager
def _spark_failures(request: StateRequest) -> Iterator[None]:
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise QueryLogError(
            f"Spark cannot read the state: {first_line(error)}",
            hint="See what `holdfast log verify` says. If a query is running, use a newer batch: "
            "Spark may have cleaned this one up.",
            path=request.directory,
        ) from error


@contextmanager
def _condition_failures(request: StateRequest, found: DataFrame) -> Iterator[None]:
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        about_files = str(error.getCondition() or "").startswith(_ABOUT_FILES)
        if request.where is None or about_files:
            raise
        raise UsageError(
            f"--where cannot be evaluated: {first_line(error)}",
            hint=f"Columns: {', '.join(columns.flattened(found))}.",
            where=request.where,
        ) from error
