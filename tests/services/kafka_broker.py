"""Kafka brokers in memory: one that lets everybody in, one that knows its users."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.testing import kafka
from holdfast.testing.kafka import KafkaBroker, broker_jars, running_broker
from tests.services.jars import brought
from tests.services.mariadb_server import in_memory
from tests.services.processes import free_ports

__all__ = ["KafkaBroker", "guarded_broker", "kafka_broker", "login_of"]

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@contextmanager
def kafka_broker(**settings: str) -> Iterator[KafkaBroker]:
    """A broker of its own that lets everybody in, with further settings (``_`` for ``.``)."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with _directory() as home, kafka.kafka_broker(home, settings=named) as broker:
        yield broker


@contextmanager
def guarded_broker(*users: str) -> Iterator[KafkaBroker]:
    """A broker that knows its users, whose password is their name, and lets only ``admin`` act."""
    known = " ".join(f'user_{name}="{name}"' for name in ("admin", *users))
    login = f'required username="admin" password="admin" {known};'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_PLAIN} {login}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",  # the controller has no name
    }
    with _directory() as home:
        port, control_port = free_ports(2)
        options = login_of("admin")
        broker = KafkaBroker(home, port, control_port, settings, "SASL_PLAINTEXT", options)
        with running_broker(broker):
            yield broker


def login_of(user: str, password: str | None = None) -> dict[str, str]:
    """Options of a client."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password or user,
    }


@contextmanager
def _directory() -> Iterator[Path]:
    brought(broker_jars)
    with tempfile.TemporaryDirectory(prefix="holdfast-kafka-", dir=in_memory()) as directory:
        yield Path(directory)
