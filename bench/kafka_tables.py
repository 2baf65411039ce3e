"""What was measured with Kafka, as tables."""

from __future__ import annotations

from bench.contrast import Outcome
from bench.contrast_kafka import ROWS
from bench.flink_cluster import VERSION
from bench.kafka_latency import Latency
from bench.kafka_shapes import Shape
from bench.kafka_topics import PARTITIONS
from bench.kafka_ways import FLINK, INTERVALS, JOB, NO_INTERVAL, PLAIN, TUNED, Speed, Way

AIM = 0.9
SETTING = f"""\
From a topic filled beforehand to another one, {PARTITIONS} partitions and {PARTITIONS} cores, one \
broker on the same machine. Holdfast and
Flink {VERSION} (SQL, mini-batches of 500 ms) write exactly once, plain Spark at least once. Rows \
per second are
those from the start until a reader of committed records sees the result of the last one.

What to know of the comparison: plain Spark's producers have Java's settings (16 KB batches, no \
linger); *tuned*
gives them those of ours (1 MB, 20 ms). The broker's JVM compiles only quickly (C1), so many small \
requests cost more
than on a broker at work. Holdfast reads committed records, the others all. Holdfast sends with \
one task, Flink and
plain Spark with {PARTITIONS}. The input has an end; Holdfast takes its last checkpoint as soon as \
it is reached.
"""


def speeds(shape: Shape, found: dict[Way, Speed], rounds: int) -> str:
    """Rows per second of one shape."""
    plain, tuned = (found[who, NO_INTERVAL].rows_per_second for who in (PLAIN, TUNED))
    lines = [
        f"{shape.name[0].upper()}{shape.name[1:]}; {shape.rows / 1e6:g} M rows in batches of "
        f"{shape.per_batch / 1e6:g} M. Medians of {rounds} rounds, taking turns. Plain Spark: "
        f"{plain:,.0f} rows per second; tuned: {tuned:,.0f}.",
        "",
        "| checkpoints every | Holdfast | of plain Spark | aim | of plain Spark, tuned | Flink "
        "| of Flink | checkpoints in a run, Holdfast and Flink |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for interval in INTERVALS:
        ours, other = found[JOB, interval], found.get((FLINK, interval))
        mine = ours.rows_per_second
        verdict = f"≥ {AIM}" + ("" if mine >= AIM * plain else " (short of it)")
        beside, counts = "not here | ", f"{ours.checkpoints:g}"
        if other is not None:
            beside = f"{other.rows_per_second:,.0f} | {mine / other.rows_per_second:.2f}"
            counts += f", {other.checkpoints:g}"
        lines.append(
            f"| {interval} | {mine:,.0f} | {mine / plain:.2f} | {verdict} | {mine / tuned:.2f} "
            f"| {beside} | {counts} |"
        )
    return "\n".join([*lines, ""])


def delays(found: dict[Way, Latency]) -> str:
    """From a row's arrival to its sight."""
    lines = [
        "From a row's arrival in the one topic until a reader of committed records sees it in the "
        "other, 50 rows a second:",
        "",
        "| what | checkpoints every | median | p99 |",
        "|---|---|---:|---:|",
    ]
    for (who, interval), latency in found.items():
        every = interval if who != PLAIN else "none, each batch is sent at once"
        lines.append(f"| {who} | {every} | {latency.median:.2f} s | {latency.p99:.2f} s |")
    return "\n".join([*lines, ""])


def kills(found: dict[str, Outcome]) -> str:
    """What kills do to both."""
    names = {"plain": 'plain Spark, `writeStream.format("kafka")`', "job": "the same as a job"}
    lines = [
        f"{ROWS:,} rows from Kafka to Kafka, `kill -9` soon after new records are in the topic, at "
        "the same moments for both:",
        "",
        "| what | kills | rows lost | rows twice or more |",
        "|---|---:|---:|---:|",
    ]
    for kind, name in names.items():
        outcome = found[kind]
        lines.append(f"| {name} | {outcome.kills} | {outcome.lost} | {outcome.repeated} |")
    return "\n".join([*lines, ""])
