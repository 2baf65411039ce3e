"""Spark's Kafka connector, for the tests' own Spark."""

from __future__ import annotations

from functools import cache as once
from pathlib import Path

from holdfast.testing import kafka_connector
from tests.services.jars import brought


@once
def connector_jars() -> list[Path]:
    """Its jars and those they need."""
    return brought(kafka_connector.connector_jars)
