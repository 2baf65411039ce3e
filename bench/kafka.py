"""The part about Kafka: exactly once by Holdfast, at least once by plain Spark, Flink's SQL."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.services.kafka_broker import kafka_broker

from bench import kafka_spark, kafka_tables
from bench.flink_cluster import NoFlink
from bench.kafka_flink import flink
from bench.kafka_shapes import COUNT, MAP
from bench.kafka_topics import filled_topic
from bench.kafka_ways import LENGTHS, Ways

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))


def measure() -> str:
    """All tables, from a process of its own: the connector must be there when Spark starts."""
    print("measuring Kafka …", flush=True)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(_measure).result()


def _measure() -> str:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-bench-")))
        broker = stack.enter_context(kafka_broker())
        other, reason = None, None
        try:
            other = stack.enter_context(flink())
        except NoFlink as error:
            reason = str(error)
        spark = kafka_spark.session()
        source = filled_topic(broker, int(max(LENGTHS.values()) * COUNT.rows))
        ways = Ways(spark, broker, other, home, source)
        tables = [kafka_tables.speeds(s, ways.speeds(s, ROUNDS), ROUNDS) for s in (COUNT, MAP)]
        delays = kafka_tables.delays(ways.delays())
        spark.stop()
    absent = [f"Flink is not here: {reason}", ""] if reason else []
    return "\n".join(["## Kafka", "", kafka_tables.SETTING, *tables, delays, *absent])
