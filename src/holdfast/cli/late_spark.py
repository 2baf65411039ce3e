"""Spark that is started when it is needed, says nothing, and is stopped if it was started here."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from holdfast.cli.terminal import spinner
from holdfast.errors import EnvironmentProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOR_SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for seconds: its second compiler would use more time than it saves."""

_GRACE_SECONDS = 10.0
_GLANCE_SECONDS = 0.01


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

        try:
            session = in_thread(self._local_session)
        except PySparkException as error:
            raise EnvironmentProblem(f"Spark does not start: {first_line(error)}") from error
        except BaseException:
            # Without its parent it would run forever, and asked politely it would print stacks.
            _end_java(signal.SIGKILL)
            raise
        if not _debugging():
            # Spark would print failures with the stacks of Java's threads.
            session.sparkContext.setLogLevel("OFF")
        return session

    def _local_session(self) -> SparkSession:
        from holdfast.spark.session import local_session

        conf = {
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.defaultJavaOptions": self._java_options,
        }
        return local_session("holdfast log state", **conf)

    def __enter__(self) -> LateSpark:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop Spark if it was started here."""
        if self._own is None:
            return
        if error is None or isinstance(error, Exception):
            self._own.stop()
        else:
            # Interrupted in the middle of what was being said to Java, so nothing more can be said.
            # It would go on writing while others clean up behind it.
            _end_java(signal.SIGTERM)


def _debugging() -> bool:
    return bool(os.environ.get("HOLDFAST_DEBUG"))


def in_thread(start: Callable[[], SparkSession]) -> SparkSession:
    """Start Spark outside the main thread.

    In it PySpark would replace our handler of Ctrl-C by one that talks to Java, in the middle of
    whatever is being said. And an interruption need not wait for Java to be ready.
    """
    started: Future[SparkSession] = Future()

    def work() -> None:
        try:
            started.set_result(start())
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=work, name="holdfast-spark", daemon=True).start()
    return started.result()


def _end_java(number: signal.Signals) -> None:
    """End the Java that PySpark has started, the only child of this process, and wait for it."""
    for child in _children():
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, number)
            deadline = time.monotonic() + _GRACE_SECONDS
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                time.sleep(_GLANCE_SECONDS)


def _children() -> Iterator[int]:
    for status in Path("/proc").glob("[0-9]*/stat"):  # Linux only
        with suppress(OSError):
            # The name, in brackets, may hold spaces; the state and the parent follow it.
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                yield int(status.parent.name)


@contextmanager
def quiet_logging() -> Iterator[None]:
    """What PySpark and py4j log is raised too, and told in one line instead of a hundred."""
    before = logging.root.manager.disable
    if not _debugging():
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def first_line(error: Exception) -> str:
    """Spark's reason without the dump of the query below it."""
    text = str(error).strip().partition("\n")[0]
    return text.partition(" SQLSTATE:")[0].rstrip(" .;")
