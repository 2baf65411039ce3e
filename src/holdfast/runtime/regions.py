"""One region: its query, and what happens to the rows of each batch."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import Cause, UsageError
from holdfast.protocol.graph import Region, SinkUse, Source
from holdfast.protocol.lag import PartitionLag, partition_lags, source_lag
from holdfast.querylog.snapshots import newest_commit, offsets_at
from holdfast.runtime.channels import Channel, nothing
from holdfast.runtime.epochs import SinkEpochs
from holdfast.runtime.gates import ChannelSteering, Gates, RegionGate, channel_positions
from holdfast.settings import Settings
from holdfast.sinks import PlainSink
from holdfast.spark.connectors import telling_what_lacks
from holdfast.spark.failures import causes_of_query
from holdfast.spark.streams import parquet_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import StructType


@dataclass(slots=True)
class RegionFigures:
    """What the terminal and the server show about a region."""

    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int = 0
    """Rows (or whatever its offsets count) that its sources have and it has not read."""
    partitions: tuple[PartitionLag, ...] = ()
    """The same of each partition of its Kafka topics."""
    backpressured: float = 0.0
    """Seconds that it has waited for its readers, or for sinks that could not commit."""
    state_rows: int = 0
    state_bytes: int = 0
    busy: float = 0.0
    """Seconds that batches have taken."""
    watermark: str | None = None


class RunningRegion:
    """A region's query from its start to its end."""

    def __init__(
        self,
        region: Region,
        location: str,
        gates: Gates,
        channel: Channel | None,
        sinks: Sequence[SinkUse],
        settings: Settings,
        check: Callable[[], None] = nothing,
    ) -> None:
        self.uid = region.uid
        self.region = region
        self.location = location
        self.figures = RegionFigures()
        self.finished = False
        self.halted = False
        """Its query is down and waits to be started again."""
        self.query: StreamingQuery | None = None
        self.frame: DataFrame | None = None
        self._gates = gates
        self._channel = channel
        self._plain = [use.sink for use in sinks if isinstance(use.sink, PlainSink)]
        self.epochs: list[SinkEpochs] = []
        self.unstaged = False
        """Rows go to its one sink at once."""
        self._settings = settings
        self._check = check
        self._bounded: dict[str, Any] = {}
        self._stoppable: list[Any] = []
        self._checkable: list[Any] = []
        self._read_to_end: set[str] = set()
        self._ends_itself = False
        self._finishing = threading.Lock()

    @property
    def schema(self) -> StructType:
        """Of the rows it puts out."""
        assert self.frame is not None
        return plain_schema(self.frame.schema)

    # Before the start

    def build(
        self,
        spark: SparkSession,
        sources: Mapping[str, Source],
        producers: Mapping[str, RunningRegion],
    ) -> None:
        """Make the region's DataFrame; its producers have theirs already. Also once again."""
        self._bounded, self._stoppable, self._checkable = {}, [], []
        self._finishing = threading.Lock()
        channels = [uid for uid in self.region.reads if uid in producers]
        opened = [uid for uid in self.region.reads if uid in sources]
        batch_bytes = self._settings.batch_bytes
        commit = newest_commit(self.location)
        gate = RegionGate(
            self._gates, self.uid, channels, not opened, batch_bytes, is_new=commit is None
        )
        inputs = []
        for uid in self.region.reads:
            if uid in sources:
                inputs.append(self._open(spark, sources[uid]))
            else:
                steering = ChannelSteering(gate, self._gates, self.uid, self._gates.channels[uid])
                inputs.append(parquet_stream(spark, producers[uid].schema, steering, uid))
        self.frame = self._checked(self.region.build(*inputs))
        # After a restart nothing may be left to read, and then no batch comes to say so.
        if commit is not None:
            self._note_bounded(list(commit.offsets.values()))
        if self._settings.trigger.kind == "available-now":
            self._ends_itself = self._is_ended_by_spark(opened, channels, sources)

    def _is_ended_by_spark(
        self, opened: Sequence[str], channels: Sequence[str], sources: Mapping[str, Source]
    ) -> bool:
        """Whether Spark's own trigger ends the query; if not, its inputs must have an end."""
        others = bool(channels or self._bounded)
        endless = [uid for uid in opened if self._is_endless(sources[uid], others)]
        if endless:
            raise UsageError(
                f"with trigger available-now the end of {', '.join(endless)} cannot be known here",
                hint="Give a generator a number of rows; let a region of its own read a source.",
                region=self.uid,
            )
        return bool(opened) and not self._bounded

    def _is_endless(self, source: Source, others: bool) -> bool:
        """Spark's trigger ends a source that says nothing of an end, but only without others."""
        says = getattr(source.open, "bounded", None)
        return says is False or (source.uid not in self._bounded and others)

    def _open(self, spark: SparkSession, source: Source) -> DataFrame:
        opener = source.open
        if hasattr(opener, "for_query"):
            opener = opener.for_query(source.uid, self.location)
        alone = len(self.region.reads) == 1
        with telling_what_lacks(spark):
            frame = opener(spark) if alone else _open_beside_others(opener, spark)
        if not getattr(frame, "isStreaming", False):
            raise UsageError(
                "a source must return a streaming DataFrame",
                hint="Use spark.readStream, or hf.sources.generator(…).",
                source=source.uid,
            )
        if getattr(opener, "bounded", False):
            self._bounded[source.uid] = opener
        if hasattr(opener, "stop"):
            self._stoppable.append(opener)
        if hasattr(opener, "check"):
            self._checkable.append(opener)
        return frame

    def check_sources(self) -> None:
        """Raises if one of its sources is not what it was."""
        for source in self._checkable:
            source.check()

    def _checked(self, frame: Any) -> DataFrame:
        if not getattr(frame, "isStreaming", False):
            raise UsageError(
                "a region must return a streaming DataFrame made from its inputs",
                hint="Does its function return something?",
                region=self.uid,
            )
        names = [name.lower() for name in frame.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        void = [f.name for f in frame.schema if f.dataType.simpleString() in ("void", "interval")]
        if self._channel is not None and (twice or void):
            raise UsageError(
                "a region's columns must have different names, and types that Parquet has",
                hint=f"Change these: {', '.join(twice + void)}.",
                region=self.uid,
            )
        result: DataFrame = frame
        return result

    # Running

    def start(self, spark: SparkSession, once: bool = False) -> str:
        """Start the query, for one batch or for all; returns the id of the run."""
        assert self.frame is not None
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.uid)
        writer = (
            self.frame.writeStream.queryName(self.uid)
            .outputMode(self.region.output_mode)
            .option("checkpointLocation", self.location)
            .foreachBatch(self._take_batch)
        )
        trigger = self._settings.trigger
        if once:
            writer = writer.trigger(once=True)
        elif self._ends_itself:
            writer = writer.trigger(availableNow=True)
        elif trigger.kind == "interval" and not self._reads_only_channels():
            writer = writer.trigger(processingTime=f"{int(trigger.seconds * 1000)} milliseconds")
        self.query = writer.start()
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)
        return str(self.query.runId)

    def _reads_only_channels(self) -> bool:
        return all(uid in self._gates.channels for uid in self.region.reads)

    def _take_batch(self, rows: DataFrame, batch: int) -> None:
        """In the query's thread: the rows of a batch become a segment and go to plain sinks."""
        self._check()  # a plain sink would take the rows of a runner that was replaced
        if self._channel is None:
            self._to_plain_sinks(rows, batch)
            return
        if self.unstaged:
            self.epochs[0].write(batch, rows)
            return
        for sink in self.epochs:
            sink.wait_for_unstaged()
        capacity = self._settings.channel_capacity
        for seconds in self._gates.wait_for_room(self.uid, capacity):
            self.figures.backpressured += seconds
        folder = self._channel.new_folder(batch)
        location = self._channel.location(folder)
        (
            rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            .mode("errorifexists")
            .parquet(location)
        )
        segment = self._channel.publish(batch, folder)
        if self._plain:
            files = [f"{location}/{name}" for name, _ in segment.files]
            frame = rows.sparkSession.read.schema(self.schema).parquet(*files)
            self._to_plain_sinks(frame, batch)

    def _to_plain_sinks(self, rows: DataFrame, batch: int) -> None:
        if len(self._plain) > 1 and self._channel is None:
            rows = rows.persist()
        for sink in self._plain:
            sink.write(rows, batch)
        if len(self._plain) > 1 and self._channel is None:
            rows.unpersist()

    def batch_committed(self, batch: int, report: Mapping[str, Any]) -> dict[str, int]:
        """Spark has reported a batch; returns how far it has read its channels."""
        ends = [source.get("endOffset") for source in report.get("sources", ())]
        offsets = [end if isinstance(end, str) else json.dumps(end) for end in ends]
        figures = self.figures
        figures.batch = batch
        figures.rows += int(report.get("numInputRows", 0))
        figures.rows_per_second = _number(report.get("processedRowsPerSecond"))
        figures.busy += _number(report.get("durationMs", {}).get("triggerExecution")) / 1000
        figures.watermark = report.get("eventTime", {}).get("watermark")
        operators = report.get("stateOperators", ())
        figures.state_rows = sum(int(o.get("numRowsTotal", 0)) for o in operators)
        figures.state_bytes = sum(int(o.get("memoryUsedBytes", 0)) for o in operators)
        sources = report.get("sources", ())
        figures.lag = sum(source_lag(source) for source in sources)
        figures.partitions = tuple(sorted(lag for s in sources for lag in partition_lags(s)))
        self._note_bounded(offsets)
        return channel_positions(offsets)

    def _note_bounded(self, offsets: Sequence[str | None]) -> None:
        self._read_to_end = {
            uid for uid, source in self._bounded.items() if _is_finished(source, offsets)
        }

    def wait(self) -> None:
        """Until the query has ended; raises what it failed of."""
        assert self.query is not None
        self.query.awaitTermination()

    def unheard(self, last: int) -> Iterator[tuple[int, dict[str, int]]]:
        """Batches after ``last`` that its query log has, and how far they have read."""
        newest = newest_commit(self.location)
        for batch in range(last + 1, newest.batch + 1 if newest is not None else 0):
            yield batch, channel_positions(list(offsets_at(self.location, batch).values()))

    def causes(self) -> tuple[Cause, ...]:
        """Why its query has failed."""
        return causes_of_query(self.query) if self.query is not None else ()

    # The end

    def input_has_ended(self) -> bool:
        """Whether everything that will ever come has been read."""
        if self._ends_itself:
            return False
        channels = [uid for uid in self.region.reads if uid in self._gates.channels]
        others = [uid for uid in self.region.reads if uid not in self._gates.channels]
        if any(uid not in self._read_to_end for uid in others):
            return False
        return self._gates.exhausted(self.uid, channels)

    def finish(self) -> None:
        """Let Spark do what is left to do without input, then end the query."""
        if self._finishing.acquire(blocking=False) and self.query is not None:
            for source in self._stoppable:  # it would wait for a row that does not come
                source.stop()
            with suppress(Exception):  # if it fails, the listener is told why
                self.query.processAllAvailable()
            self.stop()

    def stop(self) -> None:
        """End the query; its gate must be open."""
        for source in self._stoppable:
            source.stop()
        if self.query is not None and self.query.isActive:
            self.query.stop()


def _open_beside_others(opener: Any, spark: SparkSession) -> Any:
    """A source that can wait for rows is told not to, where others would wait with it."""
    return getattr(opener, "beside_others", opener)(spark)


def _is_finished(source: Any, offsets: Sequence[str | None]) -> bool:
    if hasattr(source, "has_read_all"):
        return bool(source.has_read_all(offsets))
    return any(offset and _is_end_of(source, offset) for offset in offsets)


def _is_end_of(source: Any, offset: str) -> bool:
    try:
        return bool(source.finished(offset))
    except UsageError:
        return False  # the offset of another source


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def plain_schema(schema: StructType) -> StructType:
    """Without column metadata: a watermark belongs to its own query and does not travel."""
    from pyspark.sql.types import StructType as Struct

    def bare(item: Any) -> Any:
        if isinstance(item, dict):
            return {k: ({} if k == "metadata" else bare(v)) for k, v in item.items()}
        return [bare(i) for i in item] if isinstance(item, list) else item

    return Struct.fromJson(bare(json.loads(schema.json())))
