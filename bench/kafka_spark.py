"""Kafka to Kafka by Spark: a job, exactly once, and a plain query, at least once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.services.kafka_broker import KafkaBroker
from tests.services.kafka_connector import connector_jars

import holdfast as hf
from bench.kafka_shapes import Shape
from bench.kafka_topics import PARTITIONS, place
from bench.running import plain_session, running
from holdfast.protocol.statistics import Status
from holdfast.runtime.running import RunningJob, State
from holdfast.spark.session import local_session

_STATE = {"spark.sql.shuffle.partitions": str(PARTITIONS)}


def session() -> SparkSession:
    """With the connector; jobs and plain queries run in it."""
    return local_session(
        "holdfast-bench",
        **{
            "spark.master": f"local[{PARTITIONS}]",
            "spark.driver.memory": "3g",
            "spark.scheduler.mode": "FAIR",
            "spark.driver.extraJavaOptions": "-Xss8m",
            "spark.jars": ",".join(map(str, connector_jars())),
        },
    )


def run_plain(
    spark: SparkSession,
    broker: KafkaBroker,
    shape: Shape,
    topics: tuple[str, str],
    home: Path,
    options: Mapping[str, str],
) -> float:
    """What people write by hand; seconds until a reader sees the result of the last row."""
    session = plain_session(spark, _STATE)
    began = time.time()
    with plain(session, broker, shape, topics, home, options):
        return shape.wait(broker, topics[1], shape.rows) - began


@contextmanager
def plain(
    spark: SparkSession,
    broker: KafkaBroker,
    shape: Shape,
    topics: tuple[str, str],
    home: Path,
    options: Mapping[str, str],
) -> Iterator[Any]:
    """The query while it runs."""
    query = _start_plain(spark, broker, shape, topics, home, options)
    try:
        yield query
    finally:
        query.stop()


def _start_plain(
    spark: SparkSession,
    broker: KafkaBroker,
    shape: Shape,
    topics: tuple[str, str],
    home: Path,
    options: Mapping[str, str],
) -> Any:
    source, target = topics
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", shape.per_batch)
        .load()
    )
    return (
        shape.build(rows)
        .writeStream.format("kafka")
        .outputMode(shape.output_mode)
        .option("kafka.bootstrap.servers", broker.servers)
        .option("topic", target)
        .options(**options)
        .option("checkpointLocation", str(home / "log"))
        .start()
    )


def run_job(
    broker: KafkaBroker,
    shape: Shape,
    topics: tuple[str, str],
    home: Path,
    interval: str,
) -> tuple[float, int]:
    """The same, exactly once; and how many checkpoints were completed until then."""
    job = declared(broker, shape, topics, place(topics[0], shape.rows))
    with running(job, home, settings(interval)) as run:
        taken = shape.wait(broker, topics[1], shape.rows) - run.entered[State.RUNNING]
        done = sum(each.status is Status.COMPLETED for each in run.history.all())
        return taken, done


def refuse_dead(query: Any) -> None:
    """A plain query must still run."""
    if not query.isActive:
        raise query.exception() or RuntimeError("the plain query has ended")


def refuse_failed(run: RunningJob) -> None:
    """A job must still run, or try to."""
    if run.state.is_over:
        raise run.failure or RuntimeError("the job has ended")


def declared(broker: KafkaBroker, shape: Shape, topics: tuple[str, str], end: Any = None) -> hf.Job:
    """The job."""
    source, target = topics
    job = hf.Job("kafka")
    read = hf.sources.kafka(broker.servers, source, end=end, max_per_batch=shape.per_batch)
    region = job.region("rows", reads=job.source("in", read), output_mode=shape.output_mode)
    job.sink("out", region(shape.build), hf.sinks.kafka(broker.servers, target))
    return job


def settings(interval: str) -> dict[str, object]:
    """Of a job."""
    return {"parallelism.default": PARTITIONS, "execution.checkpointing.interval": interval}
