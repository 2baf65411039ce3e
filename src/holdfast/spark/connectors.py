"""Jars that Spark does not bring along, and that a source needs: found, fetched, or asked for.

In this order: on the class path, among the given jars, by ``spark.jars.packages`` for the Spark
that runs, which then fetches them. What is still missing is told before any query starts.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import EnvironmentProblem

JARS = "spark.jars"
PACKAGES = "spark.jars.packages"
_CLASS_PATH = "spark.driver.extraClassPath"
_SCALA = "2.13"


class NoConnector(EnvironmentProblem):
    """Spark lacks the jars of a source."""

    code = "NO_CONNECTOR"


@dataclass(frozen=True, slots=True)
class Connector:
    """A source of Spark's that comes in jars of its own."""

    format: str
    """As in ``spark.readStream.format``."""
    artifact: str
    classes: Mapping[str, str] = field(hash=False)
    """A class of each jar that it takes, and the jar's name."""

    @property
    def provider(self) -> str:
        """The class that Spark looks for."""
        return next(iter(self.classes))

    def package(self, version: str) -> str:
        """Its coordinates."""
        return f"org.apache.spark:{self.artifact}_{_SCALA}:{version}"


KAFKA = Connector(
    "kafka",
    "spark-sql-kafka-0-10",
    {
        "org.apache.spark.sql.kafka010.KafkaSourceProvider": "spark-sql-kafka-0-10_2.13",
        "org.apache.spark.kafka010.KafkaTokenUtil": "spark-token-provider-kafka-0-10_2.13",
        "org.apache.kafka.clients.admin.AdminClient": "kafka-clients",
        "org.apache.commons.pool2.impl.GenericKeyedObjectPool": "commons-pool2",
    },
)


def connector_settings(
    needed: Collection[Connector], given: Mapping[str, str], version: str, home: Path
) -> dict[str, str]:
    """What to start Spark with, besides what is given, so that it has them all."""
    lacking = [each for each in needed if not _is_given(each, given, home)]
    if not lacking:
        return {}
    packages = [*_listed(given.get(PACKAGES, "")), *(each.package(version) for each in lacking)]
    return {PACKAGES: ",".join(packages)}


def _is_given(connector: Connector, given: Mapping[str, str], home: Path) -> bool:
    if any(connector.artifact in each for each in _listed(given.get(PACKAGES, ""))):
        return True
    jars = [*_listed(given.get(JARS, "")), *given.get(_CLASS_PATH, "").split(os.pathsep)]
    here = (home / "jars").glob(f"{connector.artifact}_*.jar")
    return any(here) or any(_has(connector, jar) for jar in _files(jars))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _files(jars: Iterable[str]) -> Iterable[str]:
    """Class paths may name all jars of a directory."""
    for jar in jars:
        if jar.endswith("*"):
            yield from map(str, Path(jar).parent.glob("*.jar"))
        elif jar:
            yield jar


def _has(connector: Connector, jar: str) -> bool:
    """By its name, or by what is in it: people pack all into one jar."""
    if connector.artifact in jar:
        return True
    entry = f"{connector.provider.replace('.', '/')}.class"
    try:
        with zipfile.ZipFile(jar.removeprefix("file://").removeprefix("file:")) as archive:
            return entry in archive.NameToInfo
    except (OSError, zipfile.BadZipFile):
        return False  # elsewhere, or none: Spark will say so


def require_connectors(spark: Any, needed: Collection[Connector]) -> None:
    """``NoConnector`` unless Spark has every class of them."""
    for connector in needed:
        lacking = [jar for name, jar in connector.classes.items() if not _is_loadable(spark, name)]
        if lacking:
            raise no_connector(connector, spark.version, lacking)


def _is_loadable(spark: Any, name: str) -> bool:
    from py4j.protocol import Py4JJavaError

    jvm = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True


@contextmanager
def telling_what_lacks(spark: Any) -> Iterator[None]:
    """Where Spark only says that it cannot find Kafka, say what to do."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if error.getCondition() != "KAFKA_DATA_SOURCE_NOT_ENABLED":
            raise
        raise no_connector(KAFKA, spark.version) from None


def no_connector(connector: Connector, version: str, lacking: Collection[str] = ()) -> NoConnector:
    """What is missing, and what to write where."""
    package = connector.package(version)
    jars = ", ".join(lacking or connector.classes.values())
    return NoConnector(
        f"Spark has not got what it takes to read {connector.format}: {jars}",
        hint=f'Let Spark fetch it: "{PACKAGES}" = "{package}" in holdfast.toml, or '
        f"holdfast run --set {PACKAGES}={package}. Or give the files: "
        f'"{JARS}" = "/path/a.jar,/path/b.jar". A Spark that runs already must be started anew.',
    )


def could_not_fetch(needed: Collection[Connector], version: str) -> NoConnector:
    """Spark did not start, and it was told to fetch something."""
    first = next(iter(needed))
    packages = ", ".join(each.package(version) for each in needed)
    return NoConnector(
        f"Spark did not start; it was to fetch {packages}, and stderr says why it could not",
        hint="Is there a repository that has it? Another one is named by spark.jars.repositories, "
        f"another version by {PACKAGES}. Or give the files (with those they need: "
        f'{", ".join(first.classes.values())}): "{JARS}" = "/path/a.jar,/path/b.jar" in '
        "holdfast.toml, or holdfast run --set spark.jars=…",
    )
