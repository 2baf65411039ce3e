"""Spark that is started when it is needed, says nothing, and is stopped if it was started here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli.terminal import spinner
from holdfast.errors import EnvironmentProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOR_SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for seconds: its second compiler would use more time than it saves."""

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class LateSpark:
    """Stands in for a session and starts Spark when the first one is asked for.

    ``read_state`` asks after it has checked the request. So a wrong operator or batch is told at
    once, not after the seconds that Spark takes to start.
    """

    def __init__(self, java_options: str) -> None:
        self._java_options = java_options
        self._own: SparkSession | None = None

    def newSession(self) -> SparkSession:  # noqa: N802  Spark's name
        """A session of a Spark that runs from now on."""
        from holdfast.spark.session import active_session

        if (active := active_session()) is not None:
            return active.newSession()
        with spinner("Starting Spark"):
            self._own = self._start()
        return self._own.newSession()

    def _start(self) -> SparkSession:
        from pyspark.errors import PySparkException

        from holdfast.spark.session import local_session

        conf = {
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.defaultJavaOptions": self._java_options,
        }
        try:
            session = local_session("holdfast log state", **conf)
        except PySparkException as error:
            raise EnvironmentProblem(f"Spark does not start: {first_line(error)}") from error
        if not os.environ.get("HOLDFAST_DEBUG"):
            # Whatever fails is raised too; Spark would print it with the stacks of Java's threads.
            session.sparkContext.setLogLevel("OFF")
        return session

    def stop(self) -> None:
        """Stop Spark if it was started here."""
        if self._own is not None:
            self._own.stop()


@contextmanager
def quiet_loggers() -> Iterator[None]:
    """What PySpark logs when it raises is said by the error, in one line instead of a hundred."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


def first_line(error: Exception) -> str:
    """Spark's reason without the dump of the query below it."""
    text = str(error).strip().partition("\n")[0]
    return text.partition(" SQLSTATE:")[0].rstrip(" .;")
