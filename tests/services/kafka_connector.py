"""Spark's Kafka connector, brought by Maven and kept from run to run."""

from __future__ import annotations

import subprocess
from functools import cache as once
from pathlib import Path

from tests.services.processes import missing
from tests.services.servers import cache, maven

# What runs on this Spark and can be had; one by one, because the rest of what they name cannot.
_ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


@once
def connector_jars() -> list[Path]:
    """Its jars and those they need."""
    home = cache() / "spark-kafka"
    return [_jar(home, artifact) for artifact in _ARTIFACTS]


def _jar(home: Path, artifact: str) -> Path:
    _, name, version = artifact.split(":")
    jar = home / f"{name}-{version}.jar"
    if not jar.exists():
        command = [maven(), "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
        said = subprocess.run(
            [*command, f"-DoutputDirectory={home}"], capture_output=True, text=True, check=False
        )
        if not jar.exists():
            missing(f"no Kafka connector: Maven did not bring {artifact}:\n{said.stdout[-1000:]}")
    return jar
