"""A real Kafka broker on loopback, for tests and examples: one JVM, its own controller.

    with kafka_broker() as broker:
        topic = broker.new_topic()
        hf.sources.kafka(broker.servers, topic)

Its jars come by Maven, once (half a minute). It dies with the context, and with this process.
"""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.errors import DestinationExists, EnvironmentProblem
from holdfast.sinks.kafka.client import driver
from holdfast.spark.java import find_java
from holdfast.testing.maven import jars
from holdfast.testing.servers import LOOPBACK, free_ports, listens, running, wait_until

VERSION = "4.3.1"
_numbers = count(1)
_TAIL = 1000
_ONE = (
    "offsets.topic.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)


@contextmanager
def kafka_broker(
    directory: str | Path | None = None,
    *,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[KafkaBroker]:
    """A broker that lets everybody in, with its data in a new ``directory`` that stays.

    Without one the data is gone with the broker. ``settings`` are the broker's own.
    """
    broker_jars()
    with ExitStack() as stack:
        home = directory or stack.enter_context(_temporary())
        control_port, free = free_ports(2)
        broker = KafkaBroker(Path(home), port or free, control_port, settings or {})
        yield stack.enter_context(running_broker(broker))


@contextmanager
def running_broker(broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """Set up a broker and let it run."""
    broker.configure()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def broker_jars() -> Path:
    """Where the broker's jars are, with its tools."""
    artifacts = [f"org.apache.kafka:{name}:{VERSION}" for name in ("kafka_2.13", "kafka-tools")]
    return jars(f"kafka-{VERSION}", artifacts)


@dataclass(slots=True)
class KafkaBroker:
    """The broker. It can be killed and started again on the same data."""

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

    def new_topic(self, partitions: int = 1, name: str | None = None, **settings: str) -> str:
        """An empty topic; settings with ``_`` for ``.``."""
        chosen = name or f"topic{next(_numbers)}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = driver().admin.NewTopic(chosen, partitions, 1, config=config)
        admin = self.admin()  # must live until the answer is there
        admin.create_topics([topic])[chosen].result()
        return chosen

    def admin(self) -> Any:
        """A client of confluent-kafka."""
        settings = {"bootstrap.servers": self.servers, "log_level": 2, **self.options}
        return driver().admin.AdminClient(settings)

    def start(self) -> None:
        """Wait until it answers."""
        if listens(self.port):
            raise EnvironmentProblem(
                "something listens on the broker's port already",
                hint="Choose another one, or none: a free one is taken then.",
                port=self.port,
            )
        command = [*_java(), "kafka.Kafka", str(self._properties)]
        self._life.enter_context(running(command, self.directory / "out", self._answers))

    def kill(self) -> None:
        """SIGKILL; nothing listens on its port any more when this returns."""
        self._life.close()
        wait_until(lambda: not listens(self.port), "the port of the broker is free")

    def _answers(self) -> bool:
        try:
            return bool(self.admin().list_topics(timeout=1).brokers)
        except driver().KafkaException:
            return False

    def transactions(self) -> dict[str, str]:
        """By Kafka's own tool: the state of every transactional id."""
        said = self.tool("org.apache.kafka.tools.TransactionsCommand", "list")
        rows = [line.split() for line in said.splitlines()[1:]]
        return {row[0]: row[-1] for row in rows if len(row) >= 4}

    def tool(self, name: str, *arguments: str) -> str:
        """What one of Kafka's own commands says, by its class."""
        return _said(name, "--bootstrap-server", self.servers, *arguments)

    def configure(self) -> None:
        """Write its settings and format its storage."""
        if self._data.exists():
            raise DestinationExists(
                "there is the data of a broker already",
                hint="Give a new directory, or none.",
                path=self._data,
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}={value}\n" for name, value in self._settings().items())
        self._properties.write_text(text)
        cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        _said("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties))

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _settings(self) -> dict[str, str]:
        listener = f"{self.protocol}://{self.servers}"
        own = f"{self.protocol}:{self.protocol}"
        control = f"{LOOPBACK}:{self.control_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{control}",
            "listeners": f"{listener},CONTROLLER://{control}",
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{own}",
            "security.inter.broker.protocol": self.protocol,
            "log.dirs": str(self._data),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            # One that was killed is let in again when its former self counts as dead.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "300",
            **dict.fromkeys(_ONE, "1"),
            **self.settings,
        }


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="holdfast-kafka-")


def _java() -> list[str]:
    java = find_java(os.environ).home / "bin" / "java"
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [str(java), *options, "-cp", f"{broker_jars()}/*"]


def _said(name: str, *arguments: str) -> str:
    done = subprocess.run([*_java(), name, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentProblem(
            f"{name.rpartition('.')[2]} of Kafka failed",
            hint=f"It said:\n{(done.stdout + done.stderr)[-_TAIL:]}",
            exit_code=done.returncode,
        )
    return done.stdout
