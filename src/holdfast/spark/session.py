"""A new Spark session: local unless told otherwise, and silent unless it must speak."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from holdfast.spark.java import find_java
from holdfast.spark.java_wrapper import wrapped

_LOOPBACK = "127.0.0.1"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_ADDRESS = "SPARK_LOCAL_IP"

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
    """Set what a Spark on this machine needs to start and the user has not set."""
    _ensure_interpreters({})
    _stay_here()


def is_local(master: str) -> bool:
    """Whether driver and tasks share one process; everything else is a cluster."""
    return master == "local" or master.startswith("local[")


def is_on_this_machine(master: str) -> bool:
    """Whether the loopback address reaches everything: no executor is elsewhere."""
    if master.startswith("local"):
        return True
    hosts = re.findall(r"(?:spark://|,)(\[[^]]*\]|[^:,]*)", master)
    return bool(hosts) and all(
        host in ("localhost", "[::1]") or host.startswith("127.") for host in hosts
    )


def _stay_here() -> dict[str, str]:
    """Settings of a Spark that nobody outside needs to reach."""
    address = os.environ.setdefault(_ADDRESS, _LOOPBACK)
    return {"spark.driver.host": address, "spark.driver.bindAddress": address}


def _ensure_interpreters(conf: Mapping[str, str]) -> None:
    if not is_submitted():  # else Java runs already
        os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    if (chosen := conf.get("spark.pyspark.python")) is not None:
        os.environ["PYSPARK_PYTHON"] = chosen  # only spark-submit would do so by itself
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def is_submitted() -> bool:
    """Whether ``spark-submit`` has started this process, so that Java runs already."""
    return _SUBMITTED in os.environ


def spark_home() -> Path:
    """Where Spark's own files are."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def submitted_settings() -> dict[str, str]:
    """What ``spark-submit`` was told, if it has started this process."""
    from pyspark import SparkConf, SparkContext

    if not is_submitted():
        return {}
    SparkContext._ensure_initialized()
    told = dict(SparkConf(_jvm=SparkContext._jvm).getAll())
    told.pop("spark.app.name", None)  # the name of a file, mostly
    return told


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
    return active_session() or new_session(app_name, {"spark.master": "local[*]", **conf})


def new_session(app_name: str, conf: Mapping[str, str]) -> SparkSession:
    """A quiet session at the master that ``conf`` names. None may be active."""
    _ensure_interpreters(conf)
    builder = SparkSession.builder.appName(app_name)
    for key, value in _settings(conf).items():
        builder = builder.config(key, value)
    with _java_without_warning():
        return builder.getOrCreate()


def _settings(conf: Mapping[str, str]) -> dict[str, str]:
    ours = _quiet_settings(_scratch_directory())
    # Executors on other machines must reach the driver, so there Spark chooses its address.
    if is_on_this_machine(conf["spark.master"]):
        ours |= _stay_here()
    chosen = {**ours, **conf}
    if _JAVA_OPTIONS in conf:  # ours come first: of two that contradict, Java takes the last
        chosen[_JAVA_OPTIONS] = f"{ours[_JAVA_OPTIONS]} {conf[_JAVA_OPTIONS]}"
    return chosen


@contextmanager
def _java_without_warning() -> Iterator[None]:
    """Java warns on stderr about the module that Spark asks for; the wrapper does not ask."""
    home = os.environ.get("JAVA_HOME")
    if home is None:  # it runs already
        yield
        return
    os.environ["JAVA_HOME"] = str(wrapped(Path(home)))
    try:
        yield
    finally:
        os.environ["JAVA_HOME"] = home


def _quiet_settings(scratch: Path) -> dict[str, str]:
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOGGING)
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # With Spark's own log4j file, Spark would announce on stderr that it uses it. A JVM that is
        # killed leaves its temporary files, so they are where somebody deletes them.
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile=file:{logging} -Djava.io.tmpdir={scratch}",
    }


def _scratch_directory() -> Path:
    scratch = Path(tempfile.mkdtemp(prefix="holdfast-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch
