"""Spark's Kafka connector as files, where Spark cannot fetch it by ``spark.jars.packages``.

    holdfast run job.py --set spark.jars=$(python -m holdfast.testing.kafka_connector)

Where a repository has the connector of the Spark that runs, nothing of this is needed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.testing.maven import jar

# Releases that run on this Spark, one by one: a part of what they name is in no repository.
_ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def connector_jars() -> list[Path]:
    """Its jars and those they need, for ``spark.jars``."""
    return [jar(artifact) for artifact in _ARTIFACTS]


def main() -> None:
    """Print them as ``spark.jars`` wants them."""
    try:
        print(",".join(map(str, connector_jars())))
    except HoldfastError as error:
        sys.exit(f"error {error.code}: {error}")


if __name__ == "__main__":
    main()
