"""What every test may ask for, and which tests may ask for Spark."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.jobs.warm import C1_ONLY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent
MARKED = {"spark", "services", "faults"}
WITHOUT_SPARK = {"unit", "property"}

# The processes of a shared run have a width of 80, and lines would be folded to it.
os.environ.pop("COLUMNS", None)
# Every Spark that tests and their processes start, and the Java that puts its command together.
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, C1_ONLY)
# A shell's background job ignores Ctrl-C, and so would the processes that tests press it for.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SLOW = (
    "test_soak.py",
    "test_soak_kafka.py",
    "test_sink_crashes.py",
    "test_job_crash_points.py",
    "test_cluster.py",
    "test_kafka_crashes.py",
    "test_sink_kafka.py",
    "test_examples.py",
    "test_supervisor.py",
    "test_jobs_remote.py",
)
"""Files that begin first, so that no process is left alone with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the folder they live in, and keep Spark out of the quick ones."""
    items.sort(key=lambda item: SLOW.index(item.path.name) if item.path.name in SLOW else len(SLOW))
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in MARKED:
            item.add_marker(folder)
        if folder in WITHOUT_SPARK and "spark" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid} asks for Spark: it belongs in tests/spark")


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """One Spark for the whole process. Take ``spark.newSession()`` to change settings."""
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Python workers import user code by name, and must find ``tests`` wherever pytest was started.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    builder = SparkSession.builder.master("local[2]").appName("holdfast-tests")
    for name, value in {**_settings(scratch), **_jars(request.session.items)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def _jars(items: list[pytest.Item]) -> dict[str, str]:
    """Jars cannot be added to a Spark that runs, and there is only this one."""
    from tests.services.kafka_connector import connector_jars

    if not any("kafka_connector" in getattr(item, "fixturenames", ()) for item in items):
        return {}
    try:
        return {"spark.jars": ",".join(map(str, connector_jars()))}
    except (pytest.skip.Exception, pytest.fail.Exception):  # told to the tests that need them
        return {}


def _settings(scratch: Path) -> dict[str, str]:
    from holdfast.spark.job_session import QUERY_LOG_ON_LOCAL_DISK

    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.scheduler.mode": "FAIR",  # as ``holdfast run`` sets it
        **QUERY_LOG_ON_LOCAL_DISK,
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # Stack: Spark matches long Python tracebacks with a regular expression that recurses.
        "spark.driver.extraJavaOptions": "-Xss8m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        # Snapshots and compacted source logs must appear within a few batches.
        "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        "spark.sql.streaming.fileSource.log.compactInterval": "3",
    }
