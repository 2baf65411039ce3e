"""The part about Kafka: exactly once by Holdfast, at least once by plain Spark, Flink's SQL."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.services.kafka_broker import kafka_broker

from bench import contrast_kafka, kafka_spark, kafka_tables
from bench.flink_cluster import NoFlink
from bench.kafka_flink import Flink, flink
from bench.kafka_shapes import COUNT, MAP
from bench.kafka_topics import filled_topic
from bench.kafka_ways import Ways
from holdfast.errors import HoldfastError

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))


def measure() -> str:
    """All tables, from a process of its own: the connector must be there when Spark starts."""
    print("measuring Kafka …", flush=True)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(_measure).result()


def _measure() -> str:
    tables = _against_others()
    return "\n".join([*tables, kafka_tables.kills(contrast_kafka.measure())])


def _against_others() -> list[str]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
        broker = stack.enter_context(kafka_broker())
        other, reason = _flink(stack)
        spark = kafka_spark.session()
        source = filled_topic(broker, max(COUNT.rows, MAP.rows))
        ways = Ways(spark, broker, other, home, source)
        tables = [kafka_tables.speeds(s, ways.speeds(s, ROUNDS), ROUNDS) for s in (COUNT, MAP)]
        delays = kafka_tables.delays(ways.delays())
        spark.stop()
    absent = [f"Flink is not here: {reason}", ""] if reason else []
    return ["## Kafka", "", kafka_tables.SETTING, *tables, *absent, delays]


def _flink(stack: ExitStack) -> tuple[Flink | None, str | None]:
    """Or why there is none: the other figures do not need it."""
    try:
        return stack.enter_context(flink()), None
    except (NoFlink, HoldfastError, TimeoutError) as error:
        return None, str(error)
