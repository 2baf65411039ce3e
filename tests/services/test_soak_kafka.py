"""Every fault that only Kafka knows, once. ``make soak`` takes more, and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.kafka_broker import KafkaBroker
from tests.soak.kafka_running import soak_kafka

SEED = 62


@pytest.mark.timeout(900)
def test_rows_go_from_kafka_to_kafka_once_and_in_order_whatever_dies(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    soak_kafka(tmp_path, kafka, SEED, faults=7)
