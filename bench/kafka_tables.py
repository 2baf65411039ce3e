"""What was measured with Kafka, as tables."""

from __future__ import annotations

from bench.flink_cluster import VERSION
from bench.kafka_latency import Latency
from bench.kafka_shapes import Shape
from bench.kafka_topics import PARTITIONS
from bench.kafka_ways import FLINK, JOB, LENGTHS, PLAIN, Way

AIM = 0.9
SETTING = f"""\
From a topic filled beforehand to another one, {PARTITIONS} partitions and {PARTITIONS} cores, one \
broker on the same machine. Holdfast and
Flink {VERSION} (SQL, mini-batches of 500 ms) write exactly once, plain Spark at least once. Rows \
per second are
those from the start until a reader of committed records sees the result of the last one.
"""


def speeds(shape: Shape, found: dict[Way, float], rounds: int) -> str:
    """Rows per second of one shape."""
    millions = [f"{shape.rows * length / 1e6:g}" for length in LENGTHS.values()]
    lines = [
        f"{shape.name[0].upper()}{shape.name[1:]}; {', '.join(millions)} M rows in batches of "
        f"{shape.per_batch / 1e6:g} M. Medians of {rounds} rounds, taking turns.",
        "",
        "| checkpoints every | plain Spark | Holdfast | as a multiple | aim | Flink "
        "| Holdfast as a multiple of Flink |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for interval in LENGTHS:
        plain, ours = found[PLAIN, interval], found[JOB, interval]
        other = found.get((FLINK, interval))
        verdict = f"≥ {AIM}" + ("" if ours >= AIM * plain else " (short of it)")
        beside = "not here | " if other is None else f"{other:,.0f} | {ours / other:.2f}"
        figures = f"{plain:,.0f} | {ours:,.0f} | {ours / plain:.2f} | {verdict} | {beside}"
        lines.append(f"| {interval} | {figures} |")
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
