"""A job from Kafka to Kafka that numbers the rows of each key, so that state and order are seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

import holdfast as hf
from tests.faults.jobs.runner import QUICK_JAVA

PREFIX = "soak"
SINK = "out"
SCRIPT = """\
import sys
from pathlib import Path
from tests.soak.kafka_job import build

job = build(Path(sys.argv[1]))
"""


@dataclass(frozen=True)
class KafkaSpec:
    """The job as data; its process reads it at each start."""

    servers: str
    source: str
    target: str
    prefix: str
    jars: list[str]
    parallelism: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def with_tasks(self, parallelism: int) -> KafkaSpec:
        return replace(self, parallelism=parallelism)


def build(out: Path) -> hf.Job:
    """From the specification that lies there now."""
    spec = KafkaSpec(**json.loads((out / "spec.json").read_text()))
    defaults = {
        "holdfast.work.dir": str(out / "work"),
        "holdfast.spark.master": "local[2]",
        "parallelism.default": 2,
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "spark.jars": ",".join(spec.jars),
        "spark.driver.extraJavaOptions": QUICK_JAVA,
    }
    job = hf.Job("soak", settings={**defaults, **spec.settings})
    job.source("rows", hf.sources.kafka(spec.servers, spec.source))
    job.region("parsed", reads="rows")(parsed)
    job.region("numbered", reads="parsed")(numbered)
    sink = hf.sinks.kafka(
        spec.servers,
        spec.target,
        transactional_id_prefix=spec.prefix,
        parallelism=spec.parallelism,
    )
    job.sink(SINK, "numbered", sink)
    return job


def parsed(rows: Any) -> Any:
    return rows.selectExpr("CAST(key AS STRING) AS key", "CAST(CAST(value AS STRING) AS BIGINT) n")


def numbered(rows: Any) -> Any:
    """Each row, and how many of its key there have been with it: ``"n:count"``."""
    return rows.groupBy("key").applyInPandasWithState(
        count, "key string, value string", "seen long", "append", "NoTimeout"
    )


def count(key: tuple[str], parts: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Rows of a batch come in any order; numbers grow in the topic."""
    numbers = sorted(int(n) for part in parts for n in part["n"])
    (seen,) = state.get if state.exists else (0,)
    state.update((seen + len(numbers),))
    values = [f"{n}:{at}" for at, n in enumerate(numbers, seen + 1)]
    yield pd.DataFrame({"key": [key[0]] * len(values), "value": values})
