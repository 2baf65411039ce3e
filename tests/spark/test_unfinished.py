"""A query whose sink failed: the batch was planned and its state written, but not committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import querylog
from tests.spark.backends import BACKENDS, Backend
from tests.spark.conftest import UndisturbedRunOf
from tests.spark.inputs import FILES, Inputs
from tests.spark.running import Base, run, run_until_sink_fails
from tests.spark.workloads import AGGREGATION

FAILING = 3


@pytest.fixture(scope="module", params=BACKENDS, ids=[b.name for b in BACKENDS])
def failed(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Base:
    backend: Backend = request.param
    home = tmp_path_factory.mktemp("failed")
    inputs = Inputs(home / "inputs")
    inputs.deliver(range(FILES))
    done = run_until_sink_fails(spark, AGGREGATION, backend, inputs, home / "log", FAILING)
    return Base(AGGREGATION, backend, inputs, home / "log", done)


def test_inspect_shows_the_planned_batch(failed: Base) -> None:
    seen = querylog.inspect(failed.log)

    assert (seen.batch, seen.unfinished) == (FAILING - 1, (FAILING,))
    assert seen.restorable == tuple(range(FAILING))
    assert [(s.end, s.planned) for s in seen.sources] == [
        ({"logOffset": FAILING - 1}, {"logOffset": FAILING})
    ]


def test_a_copy_runs_the_planned_batch_again(
    failed: Base, undisturbed_run_of: UndisturbedRunOf, spark: SparkSession, tmp_path: Path
) -> None:
    report = querylog.copy(failed.log, tmp_path / "copy")
    assert (report.batch, report.unfinished) == (FAILING - 1, FAILING)
    assert querylog.inspect(tmp_path / "copy").unfinished == (FAILING,)
    assert querylog.verify(tmp_path / "copy").problems == ()

    resumed = run(spark, AGGREGATION, failed.backend, failed.inputs, tmp_path / "copy")

    assert resumed.batches[FAILING] == undisturbed_run_of(AGGREGATION).batches[FAILING]
    assert failed.run.rows() + resumed.rows() == undisturbed_run_of(AGGREGATION).rows()


def test_a_copy_of_the_last_committed_batch_knows_nothing_of_the_plan(
    failed: Base, undisturbed_run_of: UndisturbedRunOf, spark: SparkSession, tmp_path: Path
) -> None:
    report = querylog.copy(failed.log, tmp_path / "copy", batch=FAILING - 1)
    assert (report.batch, report.unfinished) == (FAILING - 1, None)
    assert querylog.inspect(tmp_path / "copy").unfinished == ()
    assert not (tmp_path / "copy" / "sources" / "0" / str(FAILING)).exists()

    resumed = run(spark, AGGREGATION, failed.backend, failed.inputs, tmp_path / "copy")

    assert failed.run.rows() + resumed.rows() == undisturbed_run_of(AGGREGATION).rows()
