"""Run a workload until its input is used up, and remember everything it emitted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.backends import Backend
from tests.spark.inputs import Inputs
from tests.spark.workloads import Workload


@dataclass(frozen=True)
class Run:
    """What one run of a query showed to the outside."""

    query_id: str
    batches: dict[int, list[str]]
    progress: dict[int, dict[str, Any]]

    @property
    def newest(self) -> int:
        return max(self.batches)

    def rows(self, through: int | None = None) -> Counter[str]:
        """Every row emitted, up to and with batch ``through``, and how often."""
        last = self.newest if through is None else through
        return Counter(row for batch, rows in self.batches.items() if batch <= last for row in rows)


def session_for(spark: SparkSession, workload: Workload, backend: Backend) -> SparkSession:
    """A session of the same Spark whose settings nobody else sees."""
    session = spark.newSession()
    for name, value in {**backend.conf, **workload.conf}.items():
        session.conf.set(name, value)
    return session


def run(
    spark: SparkSession, workload: Workload, backend: Backend, inputs: Inputs, log: Path
) -> Run:
    """Start or resume the query on its query log and let it read all there is."""
    batches: dict[int, list[str]] = {}

    def collect(rows: DataFrame, batch: int) -> None:
        batches[batch] = _as_json(rows)

    session = session_for(spark, workload, backend)
    query = (
        workload.build(session, inputs)
        .writeStream.outputMode(workload.output_mode)
        .option("checkpointLocation", str(log))
        .foreachBatch(collect)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = {report["batchId"]: report for report in map(_plain, query.recentProgress)}
    return Run(query.id, batches, progress)


def _as_json(rows: DataFrame) -> list[str]:
    line = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    return sorted(row[0] for row in rows.select(line).collect())


def _plain(report: Any) -> dict[str, Any]:
    import json

    return json.loads(report.json) if hasattr(report, "json") else dict(report)
