"""One streaming query per kind of stateful operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from tests.spark import processors
from tests.spark.backends import HASHMAP
from tests.spark.inputs import SCHEMA, WATERMARK, Inputs


@dataclass(frozen=True)
class Workload:
    """A query, and what is known about it before it runs.

    ``operators`` are Spark's names in the order of operator ids: nearest the sink first.
    ``unsupported`` maps the backends on which Spark cannot run it to Spark's error condition.
    """

    name: str
    build: Callable[[SparkSession, Inputs], DataFrame]
    output_mode: str
    operators: tuple[str, ...]
    conf: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 2
    has_watermark: bool = False


def _stream(spark: SparkSession, directory: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(directory))


def _timely(spark: SparkSession, directory: Path) -> DataFrame:
    return _stream(spark, directory).withWatermark("ts", WATERMARK)


def _with_millis(stream: DataFrame) -> DataFrame:
    # Python sees timestamps in its own time zone; milliseconds are the same everywhere.
    return stream.withColumn("at", F.unix_millis("ts"))


def aggregation(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _stream(spark, inputs.left).groupBy("k").agg(F.count("*").alias("c"), F.sum("v").alias("s"))


def global_aggregation(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _stream(spark, inputs.left).groupBy().count()


def windowed_aggregation(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _timely(spark, inputs.left).groupBy(F.window("ts", "10 seconds"), "k").agg(
        F.count("*").alias("c"), F.sum("v").alias("s")
    )


def session_window(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _timely(spark, inputs.left).groupBy(F.session_window("ts", "15 seconds"), "k").agg(
        F.count("*").alias("c"), F.sum("v").alias("s")
    )


def drop_duplicates(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _timely(spark, inputs.left).dropDuplicates(["k", "ts"])


def drop_duplicates_within_watermark(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _timely(spark, inputs.left).dropDuplicatesWithinWatermark(["k", "v"])


def _join(how: str) -> Callable[[SparkSession, Inputs], DataFrame]:
    def build(spark: SparkSession, inputs: Inputs) -> DataFrame:
        left = _timely(spark, inputs.left).selectExpr("k lk", "v lv", "ts lts")
        right = _timely(spark, inputs.right).selectExpr("k rk", "v rv", "ts rts")
        near = F.expr("lk = rk and rts >= lts and rts <= lts + interval 20 seconds")
        return left.join(right, near, how)

    return build


def apply_in_pandas(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return (
        _with_millis(_timely(spark, inputs.left))
        .groupBy("k")
        .applyInPandasWithState(
            processors.count_until_quiet,
            "k string, what string, count long",
            "count long",
            "Update",
            GroupStateTimeout.EventTimeTimeout,
        )
    )


def transform_with_state(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return (
        _with_millis(_timely(spark, inputs.left))
        .groupBy("k")
        .transformWithState(
            processors.CountUntilQuiet(), processors.COUNTED, "Update", "EventTime"
        )
    )


def transform_with_state_ttl(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return (
        _with_millis(_stream(spark, inputs.left))
        .groupBy("k")
        .transformWithState(
            processors.CountForAnHour(), processors.COUNTED, "Update", "ProcessingTime"
        )
    )


def limit(spark: SparkSession, inputs: Inputs) -> DataFrame:
    # Reached in the last file only, so that every resumed run depends on the count in the state.
    return _stream(spark, inputs.left).limit(60)


def deduplicated_windows(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return drop_duplicates(spark, inputs).groupBy(F.window("ts", "10 seconds"), "k").count()


def stateless(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _stream(spark, inputs.left).where("v % 20 = 0").select("k", "v")


_NEEDS_COLUMN_FAMILIES = {HASHMAP.name: "UNSUPPORTED_FEATURE.STATE_STORE_MULTIPLE_COLUMN_FAMILIES"}
_JOIN = ("symmetricHashJoin",)
_TRANSFORM = ("transformWithStateInPySparkExec",)

WORKLOADS = (
    Workload("aggregation", aggregation, "update", ("stateStoreSave",)),
    Workload("global-aggregation", global_aggregation, "update", ("stateStoreSave",), partitions=1),
    Workload(
        "windowed-aggregation",
        windowed_aggregation,
        "append",
        ("stateStoreSave",),
        has_watermark=True,
    ),
    Workload(
        "session-window",
        session_window,
        "append",
        ("sessionWindowStateStoreSaveExec",),
        has_watermark=True,
    ),
    Workload("drop-duplicates", drop_duplicates, "append", ("dedupe",), has_watermark=True),
    Workload(
        "drop-duplicates-within-watermark",
        drop_duplicates_within_watermark,
        "append",
        ("dedupeWithinWatermark",),
        has_watermark=True,
    ),
    Workload("inner-join", _join("inner"), "append", _JOIN, has_watermark=True),
    Workload("left-outer-join", _join("leftOuter"), "append", _JOIN, has_watermark=True),
    Workload("full-outer-join", _join("fullOuter"), "append", _JOIN, has_watermark=True),
    Workload(
        "left-outer-join-state-3",
        _join("leftOuter"),
        "append",
        _JOIN,
        conf={"spark.sql.streaming.join.stateFormatVersion": "3"},
        unsupported=_NEEDS_COLUMN_FAMILIES,
        has_watermark=True,
    ),
    Workload(
        "apply-in-pandas-with-state",
        apply_in_pandas,
        "update",
        ("applyInPandasWithState",),
        has_watermark=True,
    ),
    Workload(
        "transform-with-state",
        transform_with_state,
        "update",
        _TRANSFORM,
        unsupported=_NEEDS_COLUMN_FAMILIES,
        has_watermark=True,
    ),
    Workload(
        "transform-with-state-ttl",
        transform_with_state_ttl,
        "update",
        _TRANSFORM,
        # A processor on processing time always asks for another batch: AvailableNow never ends.
        conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
        unsupported=_NEEDS_COLUMN_FAMILIES,
    ),
    Workload("limit", limit, "append", ("globalLimit",), partitions=1),
    Workload(
        "deduplicated-windows",
        deduplicated_windows,
        "append",
        ("stateStoreSave", "dedupe"),
        has_watermark=True,
    ),
    Workload("stateless", stateless, "append", ()),
)
