"""A query log is looked into and copied while its query runs, and neither disturbs the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import querylog
from tests.spark.backends import BACKENDS, Backend
from tests.spark.inputs import FILES, Inputs
from tests.spark.running import run, run_meanwhile
from tests.spark.workloads import AGGREGATION

RUNNING = 3
"""The batch in the middle of which the query log is copied."""


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_a_copy_of_a_running_query_goes_on_exactly(
    backend: Backend, spark: SparkSession, tmp_path: Path
) -> None:
    inputs = Inputs(tmp_path / "inputs")
    inputs.deliver(range(FILES))
    log, copy = tmp_path / "log", tmp_path / "copy"
    seen: list[querylog.Inspection] = []

    def look(batch: int) -> None:
        if batch == RUNNING:
            seen.append(querylog.inspect(log))
            assert querylog.verify(log).problems == ()
            report = querylog.copy(log, copy, link=True)
            assert (report.batch, report.unfinished) == (RUNNING - 1, RUNNING)

    base = run_meanwhile(spark, AGGREGATION, backend, inputs, log, look)
    resumed = run(spark, AGGREGATION, backend, inputs, copy)

    assert seen[0].unfinished == (RUNNING,)
    assert seen[0].activity.maybe_running
    assert "copy" in (seen[0].activity.advice or "")
    later = {batch: rows for batch, rows in base.batches.items() if batch >= RUNNING}
    assert resumed.batches == later
    assert querylog.verify(log).problems == ()
