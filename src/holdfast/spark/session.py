"""A local Spark session that works anywhere and says nothing unless it must."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.spark.java import find_java
from holdfast.spark.java_wrapper import wrapped

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
# Spark announces a log level on stderr unless this logger and the root have the same one.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


def ensure_environment() -> None:
    """Set what Spark needs to start on this machine and the user has not set."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def active_session() -> SparkSession | None:
    """The session this process has already, also when another thread made it."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.builder.getOrCreate()


def local_session(app_name: str, **conf: str) -> SparkSession:
    """The active session if there is one, else a new local and quiet one.

    ``conf`` adds settings: ``local_session("x", **{"spark.sql.shuffle.partitions": "2"})``. They
    are ignored when a session is active: its settings are its owner's.
    """
    if (active := active_session()) is not None:
        return active
    ensure_environment()
    builder = SparkSession.builder.appName(app_name)
    quiet = _quiet_settings(_scratch_directory())
    if _JAVA_OPTIONS in conf:  # ours come first: of two that contradict, Java takes the last
        conf[_JAVA_OPTIONS] = f"{quiet[_JAVA_OPTIONS]} {conf[_JAVA_OPTIONS]}"
    for key, value in {**quiet, **conf}.items():
        builder = builder.config(key, value)
    with _java_without_warning():
        return builder.getOrCreate()


@contextmanager
def _java_without_warning() -> Iterator[None]:
    """Java warns on stderr about the module that Spark asks for; the wrapper does not ask."""
    home = os.environ["JAVA_HOME"]
    os.environ["JAVA_HOME"] = str(wrapped(Path(home)))
    try:
        yield
    finally:
        os.environ["JAVA_HOME"] = home


def _quiet_settings(scratch: Path) -> dict[str, str]:
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOGGING)
    return {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # With Spark's own log4j file, Spark would announce on stderr that it uses it.
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile=file:{logging}",
    }


def _scratch_directory() -> Path:
    scratch = Path(tempfile.mkdtemp(prefix="holdfast-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch
