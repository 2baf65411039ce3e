"""The Spark session in which a job runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from holdfast.spark.connectors import (
    Connector,
    connector_settings,
    could_not_fetch,
    require_connectors,
)
from holdfast.spark.session import (
    active_session,
    is_local,
    is_submitted,
    new_session,
    spark_home,
    submitted_settings,
)

_CONTEXT = {
    # Regions share the cores fairly: each has a pool of its own.
    "spark.scheduler.mode": "FAIR",
}
QUERY_LOG_ON_LOCAL_DISK = {
    # Renames by the usual manager start two programs (`readlink`) each when Hadoop's native library
    # is missing, as it is in the pip package. This one calls rename itself, as atomically.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}
_JAVA = "spark.driver.extraJavaOptions"
# Spark matches long Python tracebacks with a regular expression that recurses. A JVM without memory
# limps on, so it ends; what it says then, or when asked for its stacks, is for the log.
_STACK = "-Xss8m -XX:+ExitOnOutOfMemoryError -XX:+DisplayVMOutputToStderr"

_NEVER = str(2**31 - 1)
STATE_PARTITIONS = "spark.sql.shuffle.partitions"


def job_session(
    name: str,
    master: str | None,
    sql: Mapping[str, str],
    user: Mapping[str, str],
    needed: Collection[Connector] = (),
) -> SparkSession:
    """A session with these settings: in the Spark that runs already, or in a new one.

    ``NoConnector`` if that has not got what is ``needed``.
    """
    if active_session() is None:
        _start(name, context_settings(master, user, submitted_settings()), needed)
    active = active_session()
    assert active is not None
    require_connectors(active, needed)
    session = active.newSession()
    context = active.sparkContext
    told = dict(context.getConf().getAll())
    ours = {**partition_settings(context.master, context.defaultParallelism, told), **sql}
    for key, value in ours.items():
        if key not in user:  # also those that Spark knows but does not list as modifiable
            session.conf.set(key, value)
    for key, value in user.items():
        if session.conf.isModifiable(key):  # the others were for the start of Spark
            session.conf.set(key, value)
    return session


def _start(name: str, chosen: Mapping[str, str], needed: Collection[Connector]) -> None:
    version = pyspark.__version__
    # Java runs already below spark-submit: its class path is what it is.
    more = {} if is_submitted() else connector_settings(needed, chosen, version, spark_home())
    try:
        new_session(name, {**chosen, **more})
    except PySparkRuntimeError as error:
        if not more:
            raise
        raise could_not_fetch(needed, version) from error


def partition_settings(master: str, cores: int, told: Mapping[str, str]) -> dict[str, str]:
    """On one machine, and if nobody has said how many: as many state partitions as cores.

    Spark's 200 are meant for clusters; on a laptop each batch would spend seconds on empty ones.
    """
    if not is_local(master) or STATE_PARTITIONS in told:
        return {}
    return {STATE_PARTITIONS: str(cores)}


def context_settings(
    master: str | None, user: Mapping[str, str], submitted: Mapping[str, str]
) -> dict[str, str]:
    """What Spark is started with: ours, then what ``spark-submit`` was told, then the job's."""
    given = {"spark.master": "local[*]", **submitted, **user}
    if master is not None:
        given["spark.master"] = master
    ours = dict(_CONTEXT)
    if not is_local(given["spark.master"]):
        ours |= _exclusion(given)
    chosen = {**ours, **given}
    chosen[_JAVA] = f"{_STACK} {given.get(_JAVA, '')}".strip()
    return chosen


def _exclusion(given: Mapping[str, str]) -> dict[str, str]:
    """An executor on which tasks keep failing gets no more of them, where there is another."""
    attempts = int(given.get("spark.task.maxFailures", 4))
    if attempts < 2:  # the first failure ends the batch: nothing is tried elsewhere
        return {}
    prefix = "spark.excludeOnFailure"
    chosen = {
        f"{prefix}.enabled": "true",
        # Once more where its state is loaded, then elsewhere: a killed Python worker is no reason
        # to leave an executor, and a cluster with a single one has no other.
        f"{prefix}.task.maxTaskAttemptsPerExecutor": str(min(2, attempts - 1)),
        # Spark wants less than all attempts, so that the last one is on another machine.
        f"{prefix}.task.maxTaskAttemptsPerNode": str(attempts - 1),
        # Machines are not excluded: of a single one, each new executor would be refused until the
        # time is over, or until the master gives the application up.
        f"{prefix}.stage.maxFailedExecutorsPerNode": _NEVER,
        f"{prefix}.application.maxFailedExecutorsPerNode": _NEVER,
        # Failures that lie further apart are chance. With Spark's hour, a job that runs for weeks
        # would lose executors to it.
        f"{prefix}.timeout": "10min",
        # The cluster replaces an executor that is killed. One that is only excluded keeps its core,
        # and when all are, nothing runs.
        f"{prefix}.killExcludedExecutors": "true",
    }
    if given.get("spark.dynamicAllocation.enabled", "false") != "true":
        # A batch with a task that may run nowhere is given up at once, and its region restarts.
        # Spark's wait begins anew whenever any other task is started: with several regions it
        # would have no end, and each time an idle executor is killed.
        chosen["spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout"] = "0s"
    return chosen
