"""The process of Spark's JVM."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession


def jvm_pid() -> int | None:
    """The id of the JVM that this process talks to; ``None`` if there is none yet."""
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return None
    # Under spark-submit the JVM is not our child, so it is asked.
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())


def spark_is_there(spark: SparkSession) -> bool:
    """Whether the session's Spark still runs."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # the JVM is gone, or going
        return False


def jvm_is_gone() -> bool:
    """Whether the JVM that this process started has ended. Nothing is asked of the JVM."""
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None
