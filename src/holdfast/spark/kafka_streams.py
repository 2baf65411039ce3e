"""Spark's Kafka source with a word from Python: when a query opens it, and where it shall end.

Table and scan are answered by Python, because only they hear in which directory the query keeps its
notes. What reads in every batch is Spark's own stream, untouched unless there is an end.
"""
# ruff: noqa: N802 (the names, and what they mean, are Spark's)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from holdfast.spark.jvm_names import scala_object
from holdfast.spark.stream_proxies import Proxy

Hold = Callable[[str, str | None], str]
"""From an offset, and the one where the batch starts, the offset that may be read to."""

Begin = Callable[[str], Hold | None]
"""Called when a query opens the source, with its directory, in the query's own thread."""

_CONNECTOR = "org.apache.spark.sql.connector"


def kafka_stream(spark: SparkSession, options: Mapping[str, str], begin: Begin) -> DataFrame:
    """A streaming frame of Spark's Kafka source; every query of it begins with ``begin``."""
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    plain = spark.readStream.format("kafka").options(**options).load()
    found = plain._jdf.queryExecution().analyzed()
    sql, scala = gateway.jvm.org.apache.spark.sql, gateway.jvm.scala
    relation = scala_object(sql.catalyst.streaming, "StreamingRelationV2")
    none = scala_object(scala, "None")
    plan = relation.apply(
        none,
        "kafka",
        _Table(gateway, found.table(), begin),
        found.extraOptions(),
        found.output(),
        none,
        none,
        none,
        getattr(relation, "apply$default$9")(),
    )
    rows = scala_object(sql.classic, "Dataset").ofRows(spark._jsparkSession, plan)
    return DataFrame(rows, spark)


class _Table(Proxy):
    """Kafka's table, whose scans are ours."""

    def __init__(self, gateway: Any, table: Any, begin: Begin) -> None:
        super().__init__(gateway, "kafka")
        self._table = table
        self._begin = begin

    def name(self) -> str:
        return self._name

    def id(self) -> None:
        return None

    def version(self) -> None:
        return None

    def schema(self) -> Any:
        return self._table.schema()

    def columns(self) -> Any:
        return self._table.columns()

    def partitioning(self) -> Any:
        return self._table.partitioning()

    def constraints(self) -> Any:
        return self._table.constraints()

    def properties(self) -> Any:
        return self._table.properties()

    def capabilities(self) -> Any:
        return self._table.capabilities()

    def newScanBuilder(self, options: Any) -> _Scan:
        return _Scan(self._gateway, self._table.newScanBuilder(options).build(), self._begin)

    class Java:
        """What py4j asks for."""

        implements = (f"{_CONNECTOR}.catalog.SupportsRead",)


class _Scan(Proxy):
    """Kafka's scan; the stream it gives is Kafka's, or one that ends."""

    def __init__(self, gateway: Any, scan: Any, begin: Begin) -> None:
        super().__init__(gateway, "kafka")
        self._scan = scan
        self._begin = begin

    def build(self) -> _Scan:
        return self

    def readSchema(self) -> Any:
        return self._scan.readSchema()

    def description(self) -> str:
        return str(self._scan.description())

    def toMicroBatchStream(self, folder: str) -> Any:
        hold = self._begin(folder)
        stream = self._scan.toMicroBatchStream(folder)
        return stream if hold is None else _EndingStream(self._gateway, stream, hold)

    def supportedCustomMetrics(self) -> Any:
        return self._scan.supportedCustomMetrics()

    def reportDriverMetrics(self) -> Any:
        return self._scan.reportDriverMetrics()

    def columnarSupportMode(self) -> Any:
        return self._scan.columnarSupportMode()

    class Java:
        """What py4j asks for."""

        implements = (f"{_CONNECTOR}.read.ScanBuilder", f"{_CONNECTOR}.read.Scan")


class _EndingStream(Proxy):
    """Kafka's stream, held at an end. Offsets, partitions and readers are Kafka's own."""

    def __init__(self, gateway: Any, stream: Any, hold: Hold) -> None:
        super().__init__(gateway, "kafka")
        self._stream = stream
        self._hold = hold

    def initialOffset(self) -> Any:
        return self._held(self._stream.initialOffset(), None)

    def latestOffset(self, *asked: Any) -> Any:
        # Java has two methods of this name. Kafka's stream knows only the one with start and limit.
        start, limit = asked
        return self._held(self._stream.latestOffset(start, limit), start.json())

    def reportLatestOffset(self) -> Any:
        return self._held(self._stream.reportLatestOffset(), None)

    def _held(self, offset: Any, start: str | None) -> Any:
        if offset is None:
            return None
        return self._stream.deserializeOffset(self._hold(offset.json(), start))

    def deserializeOffset(self, text: str) -> Any:
        return self._stream.deserializeOffset(text)

    def getDefaultReadLimit(self) -> Any:
        return self._stream.getDefaultReadLimit()

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        return self._stream.planInputPartitions(start, end)

    def createReaderFactory(self) -> Any:
        return self._stream.createReaderFactory()

    def commit(self, end: Any) -> None:
        self._stream.commit(end)

    def stop(self) -> None:
        self._stream.stop()

    def toString(self) -> str:
        return str(self._stream.toString())

    class Java:
        """What py4j asks for."""

        implements = (
            f"{_CONNECTOR}.read.streaming.MicroBatchStream",
            f"{_CONNECTOR}.read.streaming.SupportsAdmissionControl",
        )
