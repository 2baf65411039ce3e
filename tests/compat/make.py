"""Make the saved query logs anew: ``python -m tests.compat.make`` (needs real Spark).

They were written by Spark itself, from the queries of ``tests/spark/workloads.py``. The quick
tests read them without Spark, and later releases must still read them.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession

from tests.spark.backends import BACKENDS, Backend
from tests.spark.inputs import Inputs
from tests.spark.running import run
from tests.spark.workloads import WORKLOADS, Workload

LOGS = Path(__file__).parent / "logs"
SCRATCH = Path("/tmp/holdfast-compat")  # it is inside the logs, so it must not depend on anybody
SAVED = (
    "aggregation",
    "global-aggregation",
    "windowed-aggregation",
    "inner-join",
    "outer-join-state-3",
    "transform-with-state",
    "stateless",
)
FILES = range(5)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
@pytest.mark.parametrize(
    "workload", [w for w in WORKLOADS if w.name in SAVED], ids=lambda w: w.name
)
def test_make(spark: SparkSession, workload: Workload, backend: Backend) -> None:
    if backend.name in workload.unsupported:
        pytest.skip(f"Spark cannot run it: {workload.unsupported[backend.name]}")
    inputs = Inputs(SCRATCH / "inputs")
    inputs.deliver(FILES)
    name = f"{workload.name}.{backend.name}"
    log = SCRATCH / name
    shutil.rmtree(log, ignore_errors=True)
    run(spark, workload, backend, inputs, log)
    folder = LOGS / f"spark-{spark_version}"
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / f"{name}.tar.xz", "w:xz") as archive:
        archive.add(log, arcname=name, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    shutil.rmtree(SCRATCH, ignore_errors=True)
    raise SystemExit(pytest.main(["-q", __file__]))
