"""How many tasks Spark has ended: what moves while a long batch does."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def tasks_ended(spark: SparkSession) -> int:
    """Of all executors so far, failed ones included. Does not return while the JVM is halted."""
    context: Any = spark.sparkContext._jsc.sc()
    executors = context.statusStore().executorList(False)
    found = (executors.apply(at) for at in range(executors.size()))
    return sum(each.completedTasks() + each.failedTasks() for each in found)
