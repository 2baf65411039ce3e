"""The Spark session in which a job runs."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from holdfast.spark.session import active_session, local_session

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
# Spark matches long Python tracebacks with a regular expression that recurses.
_STACK = "-Xss8m"


def job_session(
    name: str, master: str | None, sql: Mapping[str, str], user: Mapping[str, str]
) -> SparkSession:
    """A session with these settings: in the Spark that runs already, or in a new one."""
    if active_session() is None:
        local_session(name, **_context(master, user))
    active = active_session()
    assert active is not None
    session = active.newSession()
    for key, value in {**sql, **user}.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _context(master: str | None, user: Mapping[str, str]) -> dict[str, str]:
    chosen = {**_CONTEXT, **user}
    chosen[_JAVA] = f"{_STACK} {user.get(_JAVA, '')}".strip()
    if master is not None:
        chosen["spark.master"] = master
    return chosen
