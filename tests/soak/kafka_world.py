"""A job from Kafka to Kafka under its supervisor, its broker, those who write and who read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.kafka_broker import KafkaBroker
from tests.services.kafka_connector import connector_jars
from tests.services.kafka_reading import Arrivals, committed, everything
from tests.soak import ground
from tests.soak.ground import Ground, command
from tests.soak.kafka_input import Input
from tests.soak.kafka_job import PREFIX, SCRIPT, SINK, KafkaSpec
from tests.soak.kafka_judge import Judge

PARTITIONS = 3
_PATIENCE = 30.0
_ENDED = {"CompleteCommit", "CompleteAbort", "Empty"}


class KafkaWorld(Ground):
    """Rows come in and are put out from the beginning to the end."""

    def __init__(self, root: Path, broker: KafkaBroker, seed: int) -> None:
        source, target = broker.new_topic(PARTITIONS), broker.new_topic(PARTITIONS)
        prefix = f"{PREFIX}-{target}"
        jars = [str(jar) for jar in connector_jars()]
        self.kafka_spec = KafkaSpec(
            broker.servers, source, target, prefix, jars, settings=ground.SETTINGS
        )
        super().__init__(root, self.kafka_spec, SCRIPT)  # type: ignore[arg-type]
        self.broker = broker
        self.input = Input(broker, source, seed)
        self.arrivals = Arrivals(broker.servers, target)
        self.judge = Judge(broker, source, target, f"{prefix}-{SINK}")

    def rows(self) -> int:
        """That a reader has seen; all of them are judged."""
        return self.judge.look()

    def progress(self) -> None:
        """Wait for rows that were not in the topic yet."""
        there = self.arrivals.end()
        self.wait_for(lambda: self._runs() and self.judge.look() and self.arrivals.end() > there)
        super().progress()

    def epochs(self, number: int) -> None:
        """Wait until so many more have been sent."""
        wanted = self.judge.count_epochs() + number

        def are_sent() -> bool:
            self.judge.look()
            return self._runs() and self.judge.count_epochs() >= wanted

        self.wait_for(are_sent)

    def until_it_sends(self) -> str:
        """Until the broker has the first rows of a transaction that is not committed yet.

        A job that is still coming back sends nothing: it is not waited for for ever, and told.
        """
        before = self.arrivals.end()
        deadline = time.monotonic() + _PATIENCE
        while self.arrivals.end() == before and time.monotonic() < deadline:
            time.sleep(0.001)
        return "while it sent" if self.arrivals.end() > before else "although nothing was sent"

    def give_tasks(self, parallelism: int) -> None:
        """To the sink, from its next start on."""
        self.kafka_spec = self.kafka_spec.with_tasks(parallelism)
        fresh = self.root / "spec.json.new"
        fresh.write_text(json.dumps(self.kafka_spec.to_dict()))
        fresh.rename(self.root / "spec.json")

    def signal_broker(self, number: int) -> None:
        """To the broker's own process."""
        settings = f"{self.broker.directory}/server.properties".encode()
        for path in Path("/proc").glob("[0-9]*"):
            words = command(int(path.name)).split(b"\0")
            if settings in words and words[0].endswith(b"/java"):
                os.kill(int(path.name), number)

    def finish(self) -> None:
        """No more rows come in; all are put out once; nothing is left of anything."""
        self.input.stop()
        self.wait_for(lambda: self._runs() and self.judge.has_all())
        self.stop()
        self.check_left_over(self)
        self.check_transactions()
        self.check_topic()

    def check_topic(self) -> None:
        """Once more from the beginning, by new readers."""
        assert self.judge.has_all()
        servers, topic = self.broker.servers, self.kafka_spec.target
        assert len(committed(servers, topic)) == self.judge.rows
        assert len(everything(servers, topic)) == self.judge.sent

    def check_transactions(self) -> None:
        """By Kafka's own tool: those of the sink and of the input have all come to an end."""
        found = {
            name: state
            for name, state in self.broker.transactions().items()
            if self.kafka_spec.target in name or self.kafka_spec.source in name
        }
        assert found, "the tool lists nothing"
        assert set(found.values()) <= _ENDED, found


@contextmanager
def kafka_world(root: Path, broker: KafkaBroker, seed: int) -> Iterator[KafkaWorld]:
    """A job that runs; everything of it is gone at the end."""
    found = KafkaWorld(root, broker, seed)
    try:
        found.input.start()
        found.start()
        yield found
    finally:
        found.kill_everything()
        found.input.stop()
        found.judge.close()
