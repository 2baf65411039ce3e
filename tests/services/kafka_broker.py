"""A Kafka broker that can be killed and started again on the same data, and its own tools."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.spark.java import find_java
from tests.services.mariadb_server import in_memory
from tests.services.processes import LOOPBACK, free_ports, missing, running
from tests.services.servers import cache, maven

_VERSION = "4.3.1"
_numbers = count(1)
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>broker</artifactId>
<version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{_VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
<version>{_VERSION}</version></dependency>
</dependencies></project>"""
_ONE = (
    "offsets.topic.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)


@dataclass(slots=True)
class KafkaBroker:
    """The broker, up. It is its own controller."""

    directory: Path
    port: int
    control_port: int
    settings: Mapping[str, str]
    protocol: str = "PLAINTEXT"
    options: Mapping[str, str] = field(default_factory=dict)
    """With which clients reach it."""
    _life: ExitStack = field(default_factory=ExitStack)

    @property
    def servers(self) -> str:
        """For clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def _listener(self) -> str:
        return f"{self.protocol}://{self.servers}"

    def new_topic(self, partitions: int = 1, **settings: str) -> str:
        """An empty one."""
        from confluent_kafka.cimpl import NewTopic

        name = f"topic{next(_numbers)}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, partitions, 1, config=config)
        admin = self.admin()  # must live until the answer is there
        admin.create_topics([topic])[name].result()
        return name

    def admin(self) -> Any:
        """A client past the sink."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 2, **self.options})

    def start(self) -> None:
        """Wait until it answers."""
        command = [*_java(), "kafka.Kafka", str(self.directory / "server.properties")]
        self._life.enter_context(running(command, self.directory / "out", self._answers))

    def kill(self) -> None:
        """SIGKILL."""
        self._life.close()

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            return bool(self.admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def transactions(self) -> dict[str, str]:
        """By Kafka's own tool: the state of every transactional id."""
        said = self.tool("org.apache.kafka.tools.TransactionsCommand", "list")
        rows = [line.split() for line in said.splitlines()[1:]]
        return {row[0]: row[-1] for row in rows if len(row) >= 4}

    def tool(self, name: str, *arguments: str) -> str:
        """What one of Kafka's own commands says."""
        done = subprocess.run(
            [*_java(), name, "--bootstrap-server", self.servers, *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def configure(self) -> None:
        """Write its settings and format its storage."""
        chosen = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self.control_port}",
            "listeners": f"{self._listener},CONTROLLER://{LOOPBACK}:{self.control_port}",
            "advertised.listeners": self._listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{_as_itself(self.protocol)}",
            "security.inter.broker.protocol": self.protocol,
            "log.dirs": f"{self.directory}/data",
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            # One that was killed is let in again when its former self counts as dead.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "300",
            **dict.fromkeys(_ONE, "1"),
            **self.settings,
        }
        text = "".join(f"{name}={value}\n" for name, value in chosen.items())
        properties = self.directory / "server.properties"
        properties.write_text(text)
        cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        subprocess.run(
            [*_java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)],
            capture_output=True,
            check=True,
        )


def _as_itself(protocol: str) -> str:
    return f"{protocol}:{protocol}"


@contextmanager
def kafka_broker(**settings: str) -> Iterator[KafkaBroker]:
    """A broker of its own that lets everybody in, with further settings (``_`` for ``.``)."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with _directory() as home:
        port, control_port = free_ports(2)
        with _running(KafkaBroker(home, port, control_port, named)) as broker:
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
        with _running(broker):
            yield broker


_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


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
    _jars()
    with tempfile.TemporaryDirectory(prefix="holdfast-kafka-", dir=in_memory()) as directory:
        yield Path(directory)


@contextmanager
def _running(broker: KafkaBroker) -> Iterator[KafkaBroker]:
    broker.configure()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def _java() -> list[str]:
    java = find_java(os.environ).home / "bin" / "java"
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [str(java), *options, "-cp", f"{_jars()}/*"]


def _jars() -> Path:
    """The broker's jars, brought by Maven and kept from run to run."""
    home = cache() / f"kafka-{_VERSION}"
    if home.exists():
        return home
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "pom.xml").write_text(_POM)
        jars = Path(directory) / "jars"
        said = subprocess.run(
            [
                maven(),
                *("-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"),
                f"-DoutputDirectory={jars}",
            ],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if said.returncode != 0:
            missing(f"no Kafka: Maven did not bring it:\n{said.stdout[-1000:]}")
        home.parent.mkdir(parents=True, exist_ok=True)
        fresh = home.with_name(f"{home.name}.{os.getpid()}")
        shutil.copytree(jars, fresh)
        try:
            fresh.rename(home)
        except OSError:  # another process was quicker
            shutil.rmtree(fresh)
    return home
