"""What is done with the rows on their way from Kafka to Kafka, in Spark's words and in Flink's."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.services.kafka_broker import KafkaBroker

from bench.kafka_topics import (
    refuse_other_counts,
    refuse_other_rows,
    wait_for_counts,
    wait_for_rows,
)

_SCALE = float(os.environ.get("BENCH_KAFKA_SCALE", "1"))
_COUNT_BATCH, _MAP_BATCH = 1_000_000, 400_000


@dataclass(frozen=True, slots=True)
class Shape:
    """A job, whoever runs it."""

    name: str
    rows: int
    """Enough for several checkpoints: what the last one lets appear is a part of it, not all."""
    per_batch: int
    output_mode: str
    build: Callable[[Any], Any]
    sql: str
    connector: str
    """Flink's, for the target."""
    wait: Callable[[KafkaBroker, str, int], float]
    """Until the result of the last row is visible; returns when that was."""
    refuse_other: Callable[[KafkaBroker, str, int], None]
    """Count what is there, when nobody measures."""


def counted(rows: Any) -> Any:
    return rows.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")


def mapped(rows: Any) -> Any:
    return rows.selectExpr("key", "upper(CAST(value AS STRING)) AS value")


COUNT = Shape(
    "keyed count, little output",
    max(1, round(12 * _SCALE)) * _COUNT_BATCH,
    _COUNT_BATCH,
    "update",
    counted,
    "SELECT k, CAST(count(*) AS STRING) FROM source GROUP BY k",
    "upsert-kafka",
    wait_for_counts,
    refuse_other_counts,
)
MAP = Shape(
    "map, as much output as input",
    max(1, round(20 * _SCALE)) * _MAP_BATCH,
    _MAP_BATCH,
    "append",
    mapped,
    "SELECT k, upper(v) FROM source",
    "kafka",
    wait_for_rows,
    refuse_other_rows,
)
