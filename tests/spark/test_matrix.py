"""Every stateful operator on every backend: look at it, check it, copy it, resume the copy.

A resumed copy is judged by an undisturbed run of the same query over the same input: what the
original emitted up to the copied batch and what the copy emits afterwards must together be exactly
what the undisturbed run emits. Batch ids are not compared, because a query that stops runs a batch
without data first if its watermark has moved.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from holdfast import querylog
from tests.spark.backends import BACKENDS, FORMAT_VERSION, Backend
from tests.spark.conftest import BaseOf, UndisturbedRunOf
from tests.spark.inputs import Inputs
from tests.spark.running import Base, Run, run
from tests.spark.workloads import WORKLOADS, Workload

OLDER = 1

COMBINATIONS = [(workload, backend) for workload in WORKLOADS for backend in BACKENDS]


def _ids(combinations: list[tuple[Workload, Backend]]) -> list[str]:
    return [f"{workload.name}-{backend.name}" for workload, backend in combinations]


POSSIBLE = [(w, b) for w, b in COMBINATIONS if b.name not in w.unsupported]
# A copy of the newest batch is the simpler one: each operator on one backend, in turn.
ONE_EACH = [
    (own := [pair for pair in POSSIBLE if pair[0] is workload])[at % len(own)]
    for at, workload in enumerate(WORKLOADS)
]
REFUSED = [(w, b) for w, b in COMBINATIONS if b.name in w.unsupported]


@pytest.fixture(scope="module", params=POSSIBLE, ids=_ids(POSSIBLE))
def base(request: pytest.FixtureRequest, base_of: BaseOf) -> Base:
    return base_of(*request.param)


@pytest.fixture(scope="module")
def undisturbed(base: Base, undisturbed_run_of: UndisturbedRunOf) -> Run:
    return undisturbed_run_of(base.workload)


def test_the_workload_works_its_operators(base: Base, undisturbed: Run) -> None:
    """A matrix of idle operators would prove nothing."""
    assert undisturbed.rows()
    totals = [_totals(undisturbed, n) for n in range(len(base.workload.operators))]
    assert all(total["numRowsUpdated"] > 0 for total in totals)
    if base.workload.has_watermark:
        assert all(total["numRowsRemoved"] > 0 for total in totals)
        assert sum(total["numRowsDroppedByWatermark"] for total in totals) > 0


def test_inspect_tells_the_truth(base: Base) -> None:
    seen = querylog.inspect(base.log)
    newest = base.run.progress[base.run.newest]

    assert seen.query_id == base.run.query_id
    assert seen.committed == tuple(base.run.batches)
    assert (seen.batch, seen.unfinished) == (base.run.newest, ())
    assert (seen.restorable, dict(seen.not_restorable)) == (seen.committed, {})
    assert seen.watermark_ms == _watermark_ms(newest)
    assert [s.kind for s in seen.sources] == ["file"] * len(newest["sources"])
    assert [s.start for s in seen.sources] == [s["startOffset"] for s in newest["sources"]]
    assert [s.end for s in seen.sources] == [s["endOffset"] for s in newest["sources"]]
    assert tuple(o.name for o in seen.operators) == base.workload.operators
    for operator, reported in zip(seen.operators, newest["stateOperators"], strict=True):
        assert operator.name == reported["operatorName"]
        assert operator.keys == reported["numRowsTotal"]
        assert (operator.backend, operator.format) == (base.backend.engine, base.backend.format)
        assert operator.partitions == base.workload.partitions == _partitions(base, operator.id)
        assert operator.bytes == sum(store.bytes for store in operator.stores) > 0


def test_inspect_counts_what_spark_reads(base: Base, spark: SparkSession) -> None:
    for operator in querylog.inspect(base.log).operators:
        counted = {store.name: store.keys for store in operator.stores}
        assert counted == _read_by_spark(spark, base, operator)


def test_verify_finds_nothing_wrong(base: Base) -> None:
    assert querylog.verify(base.log).problems == ()
    assert querylog.verify(base.log, batch=OLDER).problems == ()


@pytest.mark.parametrize("base", ONE_EACH, ids=_ids(ONE_EACH), indirect=True)
def test_a_copy_of_the_newest_batch_resumes_exactly(
    base: Base, undisturbed: Run, spark: SparkSession, tmp_path: Path
) -> None:
    querylog.copy(base.log, tmp_path / "copy")
    assert querylog.inspect(tmp_path / "copy").batch == base.run.newest

    resumed = _resume(spark, base, tmp_path / "copy")

    assert min(resumed.batches) == base.run.newest + 1
    assert base.run.rows() + resumed.rows() == undisturbed.rows()


def test_a_copy_of_an_older_batch_resumes_exactly(
    base: Base, undisturbed: Run, spark: SparkSession, tmp_path: Path
) -> None:
    querylog.copy(base.log, tmp_path / "copy", batch=OLDER)
    assert querylog.inspect(tmp_path / "copy").batch == OLDER

    resumed = _resume(spark, base, tmp_path / "copy")

    assert min(resumed.batches) == OLDER + 1
    assert base.run.rows_through(OLDER) + resumed.rows() == undisturbed.rows()


@pytest.mark.parametrize(("workload", "backend"), REFUSED, ids=_ids(REFUSED))
def test_spark_itself_refuses(
    workload: Workload, backend: Backend, spark: SparkSession, tmp_path: Path
) -> None:
    inputs = Inputs(tmp_path / "inputs")
    inputs.deliver(range(1))
    with pytest.raises(StreamingQueryException) as refusal:
        run(spark, workload, backend, inputs, tmp_path / "log")
    assert f"[{workload.unsupported[backend.name]}]" in str(refusal.value)


def _resume(spark: SparkSession, base: Base, copy: Path) -> Run:
    assert querylog.verify(copy).problems == ()
    with _gone(base.log):
        resumed = run(spark, base.workload, base.backend, base.inputs, copy)
    assert resumed.query_id == base.run.query_id
    assert querylog.verify(copy).problems == ()
    return resumed


@contextmanager
def _gone(log: Path) -> Iterator[None]:
    """Take a query log away, so that nobody can read from it."""
    away = log.rename(log.with_name("away"))
    try:
        yield
    finally:
        # Spark's maintenance thread may still write a snapshot of a query that has stopped.
        shutil.rmtree(log, ignore_errors=True)
        away.rename(log)


def _totals(done: Run, operator: int) -> dict[str, int]:
    reports = [report["stateOperators"][operator] for report in done.progress.values()]
    return {
        name: sum(report[name] for report in reports)
        for name in ("numRowsUpdated", "numRowsRemoved", "numRowsDroppedByWatermark")
    }


def _watermark_ms(report: dict[str, Any]) -> int:
    watermark = report.get("eventTime", {}).get("watermark", "1970-01-01T00:00:00.000Z")
    return int(datetime.fromisoformat(watermark).timestamp() * 1000)


def _partitions(base: Base, operator: int) -> int:
    folders = (base.log / "state" / str(operator)).iterdir()
    return sum(folder.name.isdigit() for folder in folders)


def _read_by_spark(
    spark: SparkSession, base: Base, operator: querylog.OperatorReport
) -> dict[str, int]:
    """Keys per store as Spark's own state reader finds them."""
    session = spark.newSession()
    session.conf.set(FORMAT_VERSION, base.backend.conf[FORMAT_VERSION])

    def count(**options: str) -> int:
        reader = session.read.format("statestore").option("operatorId", operator.id)
        return int(reader.options(**options).load(str(base.log)).count())

    if operator.variables:
        # A list is one key however long it is; a map has one key per entry.
        return {
            "default": count(stateVarName="count")
            + count(stateVarName="listed", flattenCollectionTypes="false")
            + count(stateVarName="mapped")
        }
    if operator.name == "symmetricHashJoin" and len(operator.stores) == 1:
        return {"default": count(joinSide="left") + count(joinSide="right")}
    return {store.name: count(storeName=store.name) for store in operator.stores}
