"""Run a workload until its input is used up, and remember everything it emitted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from tests.spark.backends import BACKENDS, Backend
from tests.spark.inputs import FILES, Inputs
from tests.spark.workloads import Workload

BASE_FILES = 4


@dataclass(frozen=True)
class Run:
    """What one run of a query showed to the outside."""

    query_id: str
    batches: dict[int, list[str]]
    progress: dict[int, dict[str, Any]]

    @property
    def newest(self) -> int:
        return max(self.batches)

    def rows(self) -> Counter[str]:
        """Every row emitted, and how often."""
        return Counter(row for rows in self.batches.values() for row in rows)

    def rows_through(self, batch: int) -> Counter[str]:
        """The same, of the batches up to and with ``batch``."""
        return Counter(row for n, rows in self.batches.items() if n <= batch for row in rows)


@dataclass(frozen=True)
class Base:
    """A query that has read the first files and stopped; the other files are waiting."""

    workload: Workload
    backend: Backend
    inputs: Inputs
    log: Path
    run: Run


def run_base(spark: SparkSession, workload: Workload, backend: Backend, home: Path) -> Base:
    inputs, log = Inputs(home / "inputs"), home / "log"
    inputs.deliver(range(BASE_FILES))
    done = run(spark, workload, backend, inputs, log)
    inputs.deliver(range(BASE_FILES, FILES))
    return Base(workload, backend, inputs, log, done)


def run_undisturbed(spark: SparkSession, workload: Workload, home: Path) -> Run:
    """What the query emits when nothing happens to it. The backend does not matter."""
    backend = next(b for b in BACKENDS if b.name not in workload.unsupported)
    inputs = Inputs(home / "inputs")
    inputs.deliver(range(FILES))
    return run(spark, workload, backend, inputs, home / "log")


def run(
    spark: SparkSession, workload: Workload, backend: Backend, inputs: Inputs, log: Path | str
) -> Run:
    """Start or resume the query on its query log and let it read all there is."""
    batches: dict[int, list[str]] = {}

    def collect(rows: DataFrame, batch: int) -> None:
        batches[batch] = as_json(rows)

    query = _start(spark, workload, backend, inputs, log, collect)
    query.awaitTermination()
    return Run(query.id, batches, _progress(query))


def run_meanwhile(
    spark: SparkSession,
    workload: Workload,
    backend: Backend,
    inputs: Inputs,
    log: Path,
    meanwhile: Callable[[int], None],
) -> Run:
    """Run it all, and call ``meanwhile`` in the middle of every batch."""
    batches: dict[int, list[str]] = {}

    def collect(rows: DataFrame, batch: int) -> None:
        batches[batch] = as_json(rows)
        meanwhile(batch)

    query = _start(spark, workload, backend, inputs, log, collect)
    query.awaitTermination()
    return Run(query.id, batches, _progress(query))


def run_until_sink_fails(
    spark: SparkSession,
    workload: Workload,
    backend: Backend,
    inputs: Inputs,
    log: Path,
    failing: int,
) -> Run:
    """Run until the sink fails in batch ``failing``, when its state has already been written."""
    batches: dict[int, list[str]] = {}

    def collect(rows: DataFrame, batch: int) -> None:
        lines = as_json(rows)
        if batch == failing:
            raise OSError("the sink is full")
        batches[batch] = lines

    query = _start(spark, workload, backend, inputs, log, collect)
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.awaitTermination()
    return Run(query.id, batches, _progress(query))


def as_json(rows: DataFrame) -> list[str]:
    """Rows as sorted lines of JSON, made by Spark so that no time zone of Python interferes."""
    line = sf.to_json(sf.struct("*"), {"ignoreNullFields": "false"})
    return sorted(row[0] for row in rows.select(line).collect())


def _start(
    spark: SparkSession,
    workload: Workload,
    backend: Backend,
    inputs: Inputs,
    log: Path | str,
    sink: Callable[[DataFrame, int], None],
) -> StreamingQuery:
    session = spark.newSession()
    for name, value in {**backend.conf, **workload.conf}.items():
        session.conf.set(name, value)
    return (
        workload.build(session, inputs)
        .writeStream.outputMode(workload.output_mode)
        .option("checkpointLocation", str(log))
        .foreachBatch(sink)
        .trigger(availableNow=True)
        .start()
    )


def _progress(query: StreamingQuery) -> dict[int, dict[str, Any]]:
    reports = [json.loads(report.json) for report in query.recentProgress]
    return {report["batchId"]: report for report in reports}
