"""Spark's interfaces for a streaming source, answered by Python on the driver.

Spark asks a table for a scan builder, that for a scan, that for a stream, and the stream in every
batch how far to read and by which tasks. A dynamic proxy inherits no default methods, so every
method that Spark calls is here, also where the answer is "none".
"""
# ruff: noqa: N802, D102 (the names, and what they mean, are Spark's)

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any, Protocol

from holdfast.spark.steering import Steering

_CONNECTOR = "org.apache.spark.sql.connector"
_numbers = itertools.count(1)


class Reader(Protocol):
    """How executors read what a steering has decided. All that travels is Spark's own."""

    @property
    def schema(self) -> Any:
        """The Java schema of the rows."""

    def plan(self, start: str, end: str) -> Any:
        """A Java array with one ``InputPartition`` per task."""

    def factory(self) -> Any:
        """The Java ``PartitionReaderFactory`` for those partitions."""


class Proxy:
    """Spark keeps these objects in maps and compares plans that contain them."""

    def __init__(self, gateway: Any, name: str) -> None:
        self._gateway = gateway
        self._sql: Any = gateway.jvm.org.apache.spark.sql
        self._name = name
        self._number = next(_numbers)

    def toString(self) -> str:
        return f"{self._name}#{self._number}"

    def hashCode(self) -> int:
        return self._number

    def equals(self, other: Any) -> bool:
        return other is self

    # Spark asks for most answers many times per batch, and each name on the way to a Java class
    # is a call into the JVM: whatever never changes is made once.
    def _no(self, java_class: Any) -> Any:
        return self._gateway.new_array(java_class, 0)


class StreamTable(Proxy):
    """A table that can only be read as a stream."""

    def __init__(self, gateway: Any, name: str, steering: Steering, reader: Reader) -> None:
        super().__init__(gateway, name)
        self._steering = steering
        self._reader = reader

    def name(self) -> str:
        return self._name

    def id(self) -> None:
        return None

    def version(self) -> None:
        return None

    def schema(self) -> Any:
        return self._reader.schema

    def columns(self) -> Any:
        return self._sql.connector.catalog.CatalogV2Util.structTypeToV2Columns(self.schema())

    def partitioning(self) -> Any:
        return self._no(self._sql.connector.expressions.Transform)

    def constraints(self) -> Any:
        return self._no(self._sql.connector.catalog.constraints.Constraint)

    def properties(self) -> Any:
        return self._gateway.jvm.java.util.HashMap()

    def capabilities(self) -> Any:
        return self._capabilities

    @cached_property
    def _capabilities(self) -> Any:
        capability = self._sql.connector.catalog.TableCapability.MICRO_BATCH_READ
        return self._gateway.jvm.java.util.Set.of(capability)

    def newScanBuilder(self, _options: Any) -> _Scan:
        return _Scan(self._gateway, self._name, self._steering, self._reader)

    class Java:
        """What py4j asks for."""

        implements = (f"{_CONNECTOR}.catalog.SupportsRead",)


class _Scan(Proxy):
    """Scan and scan builder in one: nothing is pushed down, so there is nothing to build."""

    def __init__(self, gateway: Any, name: str, steering: Steering, reader: Reader) -> None:
        super().__init__(gateway, name)
        self._steering = steering
        self._reader = reader

    def build(self) -> _Scan:
        return self

    def readSchema(self) -> Any:
        return self._reader.schema

    def description(self) -> str:
        return self._name

    def toMicroBatchStream(self, _checkpoint_location: str) -> _Stream:
        return _Stream(self._gateway, self._name, self._steering, self._reader)

    def supportedCustomMetrics(self) -> Any:
        return self._no_metrics

    @cached_property
    def _no_metrics(self) -> Any:
        return self._no(self._sql.connector.metric.CustomMetric)

    def reportDriverMetrics(self) -> Any:
        return self._no_task_metrics

    @cached_property
    def _no_task_metrics(self) -> Any:
        return self._no(self._sql.connector.metric.CustomTaskMetric)

    def columnarSupportMode(self) -> Any:
        return self._columnar_mode

    @cached_property
    def _columnar_mode(self) -> Any:
        return self._sql.connector.read.Scan.ColumnarSupportMode.PARTITION_DEFINED

    class Java:
        """What py4j asks for."""

        implements = (f"{_CONNECTOR}.read.ScanBuilder", f"{_CONNECTOR}.read.Scan")


class _Stream(Proxy):
    """One source of one run of a query."""

    def __init__(self, gateway: Any, name: str, steering: Steering, reader: Reader) -> None:
        super().__init__(gateway, name)
        self._steering = steering
        self._reader = reader
        self._offset: Any = self._sql.execution.datasources.v2.python.PythonStreamingSourceOffset
        self._planned: tuple[tuple[str, str], Any] | None = None

    def initialOffset(self) -> Any:
        return self._offset(self._steering.initial())

    def deserializeOffset(self, text: str) -> Any:
        return self._offset(text)

    def latestOffset(self, *asked: Any) -> Any:
        # Java has two methods of this name: one without arguments, one with start and limit.
        start = asked[0].json() if asked and asked[0] is not None else None
        return self._offset(self._steering.latest(start))

    def reportLatestOffset(self) -> Any:
        return self._offset(self._steering.newest())

    def getDefaultReadLimit(self) -> Any:
        return self._sql.connector.read.streaming.ReadLimit.allAvailable()

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        # Spark plans a batch twice or more, for foreachBatch and for every use of the stream.
        between = (start.json(), end.json())
        if self._planned is None or self._planned[0] != between:
            self._planned = between, self._reader.plan(*between)
        return self._planned[1]

    def createReaderFactory(self) -> Any:
        return self._reader.factory()

    def commit(self, end: Any) -> None:
        self._steering.committed(end.json())

    def stop(self) -> None:
        """Too late to wake anyone: Spark calls this when the query's thread has ended."""

    class Java:
        """What py4j asks for."""

        implements = (
            f"{_CONNECTOR}.read.streaming.MicroBatchStream",
            f"{_CONNECTOR}.read.streaming.SupportsAdmissionControl",
        )
