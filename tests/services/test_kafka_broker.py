"""The broker that users' tests and the examples get."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from holdfast.errors import DestinationExists, EnvironmentProblem
from holdfast.testing.kafka import KafkaBroker, broker_jars, kafka_broker
from tests.services.jars import brought
from tests.services.processes import LOOPBACK, free_ports, listens


def test_a_broker_has_its_topics_again_after_a_kill_and_ends_with_its_context(
    tmp_path: Path,
) -> None:
    brought(broker_jars)
    (port,) = free_ports(1)
    with kafka_broker(tmp_path / "data", port=port) as broker:
        assert broker.servers == f"{LOOPBACK}:{port}"
        assert broker.new_topic(2, "views") == "views"
        broker.kill()
        assert not listens(port)
        broker.start()
        found = broker.admin().list_topics(timeout=20).topics["views"]
        assert len(found.partitions) == 2
    assert not listens(port)
    with (
        pytest.raises(DestinationExists, match="data of a broker"),
        kafka_broker(tmp_path / "data"),
    ):
        pass


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    brought(broker_jars)
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentProblem, match=f"port=?.*{port}"):
            KafkaBroker(tmp_path, port, free_ports(1)[0], {}).start()
