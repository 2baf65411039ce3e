"""What a Kafka source is told, checked at once, and put as options of Spark's connector."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.errors import UsageError
from holdfast.sources.kafka.places import Place, end_problems, place_of, start_problems

_OURS = {
    "subscribe": "give topics",
    "subscribepattern": "give pattern",
    "assign": "give topics; single partitions are for spark.readStream.format('kafka')",
    "startingoffsets": "give start",
    "startingtimestamp": "give start",
    "startingoffsetsbytimestamp": "give start",
    "endingoffsets": "give end",
    "endingtimestamp": "give end",
    "endingoffsetsbytimestamp": "give end",
    "maxoffsetspertrigger": "give max_per_batch",
    "kafka.bootstrap.servers": "give servers",
    "kafka.isolation.level": "give read_committed",
    "kafka.auto.offset.reset": "give start",
    "kafka.enable.auto.commit": "positions are in checkpoints, not in Kafka",
    "kafka.key.deserializer": "keys are bytes; cast them in the region",
    "kafka.value.deserializer": "values are bytes; cast them in the region",
    "kafka.interceptor.classes": "Spark refuses it",
}
_SPARKS = (
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsetsByTimestampStrategy",
)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):\d{1,5}")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is read. Options may hold passwords, so they are never shown."""

    servers: str
    topics: tuple[str, ...]
    pattern: str | None
    start: Place
    end: Place | None
    read_committed: bool
    max_per_batch: int | None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def fails_on_data_loss(self) -> bool:
        """Whether rows that are gone from Kafka fail the job."""
        given = {name.lower(): value for name, value in self.options.items()}
        return given.get("failondataloss", "true").lower() != "false"

    @property
    def isolation(self) -> str:
        """Kafka's word for which rows are seen."""
        return "read_committed" if self.read_committed else "read_uncommitted"

    def client_options(self) -> dict[str, str]:
        """For Kafka's own clients."""
        prefix = "kafka."
        given = {n.removeprefix(prefix): v for n, v in self.options.items() if n.startswith(prefix)}
        return {**given, "bootstrap.servers": self.servers}

    def spark_options(self) -> dict[str, str]:
        """For ``spark.readStream.format("kafka")``."""
        what = {"subscribe": ",".join(self.topics)} if self.topics else {}
        if self.pattern is not None:
            what = {"subscribePattern": self.pattern}
        if self.max_per_batch is not None:
            what["maxOffsetsPerTrigger"] = str(self.max_per_batch)
        return {
            "failOnDataLoss": "true",
            **self.start.starting_options(),
            **self.options,
            **what,
            "kafka.bootstrap.servers": self.servers,
            "kafka.isolation.level": self.isolation,
        }


def subscription(
    servers: str | Iterable[str],
    topics: str | Iterable[str] | None,
    pattern: str | None,
    start: object,
    end: object,
    read_committed: object,
    max_per_batch: object,
    options: Mapping[str, object],
) -> Subscription:
    """What was told, or one error with everything that is wrong with it."""
    hosts, names = _texts(servers), _texts(topics)
    problems = [
        *_server_problems(hosts),
        *_topic_problems(names, topics, pattern),
        *start_problems(start, names),
        *end_problems(end, names),
        *_limit_problems(read_committed, max_per_batch),
        *_option_problems(options),
    ]
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(f"this is no Kafka source:{lines}")
    return Subscription(
        ",".join(str(host) for host in hosts),
        tuple(str(name) for name in names),
        pattern,
        place_of(start),
        None if end is None else place_of(end),
        bool(read_committed),
        max_per_batch if isinstance(max_per_batch, int) else None,
        {name: _as_text(value) for name, value in options.items()},
    )


def _texts(given: str | Iterable[str] | None) -> list[object]:
    if given is None:
        return []
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return [part.strip() if isinstance(part, str) else part for part in given]


def _server_problems(servers: list[object]) -> Iterator[str]:
    if not servers:
        yield "servers: there is none; give 'host:9092', several with commas"
    for each in servers:
        if not isinstance(each, str) or not _SERVER.fullmatch(each):
            yield f"servers: {each!r} is not like 'host:9092'"


def _topic_problems(names: list[object], topics: object, pattern: object) -> Iterator[str]:
    if (topics is None) == (pattern is None):
        yield "topics, pattern: give one of them" + ("" if topics is None else ", not both")
    if topics is not None and not names:
        yield "topics: there is none"
    for name in names:
        if not isinstance(name, str) or not _TOPIC.fullmatch(name) or name in (".", ".."):
            yield f"topics: {name!r} cannot be the name of a topic"
    yield from (f"topics: {name!r} is there twice" for name in _repeated(names))
    if pattern is not None and (not isinstance(pattern, str) or not pattern.strip()):
        yield f"pattern: {pattern!r} is not a regular expression"


def _repeated(names: list[object]) -> list[object]:
    return [name for at, name in enumerate(names) if names[:at].count(name) == 1]


def _limit_problems(read_committed: object, max_per_batch: object) -> Iterator[str]:
    if not isinstance(read_committed, bool):
        yield f"read_committed: give True or False, not {read_committed!r}"
    if max_per_batch is None:
        return
    if isinstance(max_per_batch, bool) or not isinstance(max_per_batch, int) or max_per_batch < 1:
        yield f"max_per_batch: give a number of records above zero, not {max_per_batch!r}"


def _option_problems(options: Mapping[str, object]) -> Iterator[str]:
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            yield f"options: {name!r} must be a text, a number or a truth value, not {value!r}"
        elif name.lower() in _OURS:
            yield f"options: {name} cannot be set here: {_OURS[name.lower()]}"
        elif not name.startswith("kafka.") and name.lower() not in map(str.lower, _SPARKS):
            yield f"options: there is no {name}{_instead(name)}"


def _instead(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in _SPARKS], 1)
    if near:
        found = next(each for each in _SPARKS if each.lower() == near[0])
        return f"; did you mean {found}?"
    return f"; for Kafka's own clients write kafka.{name}"


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
