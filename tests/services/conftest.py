"""Servers, each started once for all tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.services.kafka_broker import KafkaBroker, kafka_broker
from tests.services.kafka_connector import connector_jars
from tests.services.mariadb_server import MariaDbServer, in_memory, mariadb_server
from tests.services.postgres_server import PostgresServer, postgres_server
from tests.services.servers import S3Server, hdfs_server, s3_server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server; the environment leads to it."""
    with (
        s3_server(tmp_path_factory.mktemp("s3")) as server,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in server.environment.items():
            environment.setenv(name, value)
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of an HDFS."""
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as uri:
        yield uri


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDbServer]:
    """A MariaDB with an empty database."""
    with mariadb_server(in_memory()) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL; take ``new_database()``."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def kafka_connector(spark: SparkSession) -> None:
    """The shared Spark can read Kafka: it is started with these jars if a test asks for this."""
    connector_jars()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A Kafka broker; take ``new_topic()``. It ends transactions as soon as their time is up."""
    glance = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "200"}
    with kafka_broker(**glance) as broker:
        yield broker
