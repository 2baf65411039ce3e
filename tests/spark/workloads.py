"""One streaming query per kind of stateful operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupStateTimeout

from tests.spark import processors
from tests.spark.backends import HASHMAP
from tests.spark.inputs import SCHEMA, WATERMARK, Inputs


@dataclass(frozen=True, eq=False)
class Workload:
    """A query, and what is known about it before it runs.

    ``operators`` are Spark's names in the order of operator ids: nearest the sink first.
    ``unsupported`` maps the backends on which Spark cannot run it to Spark's error condition.
    ``partitions`` is the number of directories on disk, which for operators that need all rows in
    one place is one, whatever Spark's metadata and metrics say.
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
    return stream.withColumn("at", sf.unix_millis("ts"))


def aggregation(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return (
        _stream(spark, inputs.left)
        .groupBy("k")
        .agg(sf.count("*").alias("c"), sf.sum("v").alias("s"))
    )


def global_aggregation(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _stream(spark, inputs.left).groupBy().count()


def windowed_aggregation(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return (
        _timely(spark, inputs.left)
        .groupBy(sf.window("ts", "10 seconds"), "k")
        .agg(sf.count("*").alias("c"), sf.sum("v").alias("s"))
    )


def session_window(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return (
        _timely(spark, inputs.left)
        .groupBy(sf.session_window("ts", "15 seconds"), "k")
        .agg(sf.count("*").alias("c"), sf.sum("v").alias("s"))
    )


def drop_duplicates(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _timely(spark, inputs.left).dropDuplicates(["k", "ts"])


def drop_duplicates_within_watermark(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _timely(spark, inputs.left).dropDuplicatesWithinWatermark(["k", "v"])


def _join(how: str) -> Callable[[SparkSession, Inputs], DataFrame]:
    def build(spark: SparkSession, inputs: Inputs) -> DataFrame:
        left = _timely(spark, inputs.left).selectExpr("k lk", "v lv", "ts lts")
        right = _timely(spark, inputs.right).selectExpr("k rk", "v rv", "ts rts")
        near = sf.expr("lk = rk and rts >= lts and rts <= lts + interval 20 seconds")
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
        .transformWithState(processors.CountUntilQuiet(), processors.COUNTED, "Update", "EventTime")
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
    return drop_duplicates(spark, inputs).groupBy(sf.window("ts", "10 seconds"), "k").count()


def stateless(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return _stream(spark, inputs.left).where("v % 20 = 0").select("k", "v")


_NOT_ON_HASHMAP = {HASHMAP.name: "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"}
_JOIN = ("symmetricHashJoin",)
_TRANSFORM = ("transformWithStateInPySparkExec",)

AGGREGATION = Workload("aggregation", aggregation, "update", ("stateStoreSave",))
OUTER_JOIN = Workload("outer-join", _join("fullOuter"), "append", _JOIN, has_watermark=True)
OUTER_JOIN_STATE_3 = Workload(
    "outer-join-state-3",
    _join("fullOuter"),
    "append",
    _JOIN,
    # Spark quietly stays with format 2 on the hash map, which has no column families.
    conf={"spark.sql.streaming.join.stateFormatVersion": "3"},
    has_watermark=True,
)
TRANSFORM_WITH_STATE = Workload(
    "transform-with-state",
    transform_with_state,
    "update",
    _TRANSFORM,
    unsupported=_NOT_ON_HASHMAP,
    has_watermark=True,
)
TRANSFORM_WITH_STATE_TTL = Workload(
    "transform-with-state-ttl",
    transform_with_state_ttl,
    "update",
    _TRANSFORM,
    # A processor on processing time always asks for another batch: AvailableNow never ends.
    conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
    unsupported=_NOT_ON_HASHMAP,
)
DEDUPLICATED_WINDOWS = Workload(
    "deduplicated-windows",
    deduplicated_windows,
    "append",
    ("stateStoreSave", "dedupe"),
    has_watermark=True,
)
STATELESS = Workload("stateless", stateless, "append", ())

WORKLOADS = (
    AGGREGATION,
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
    OUTER_JOIN,
    OUTER_JOIN_STATE_3,
    Workload(
        "apply-in-pandas-with-state",
        apply_in_pandas,
        "update",
        ("applyInPandasWithState",),
        has_watermark=True,
    ),
    TRANSFORM_WITH_STATE,
    TRANSFORM_WITH_STATE_TTL,
    Workload("limit", limit, "append", ("globalLimit",), partitions=1),
    DEDUPLICATED_WINDOWS,
    STATELESS,
)
