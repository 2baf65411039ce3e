"""Making the snapshot of a region at its cut, beside the batches that go on.

Each region has a thread for its sync phases and one for its async phases, so that both happen in
the order of checkpoints: the transactions of a sink depend on the first, and because of the second
no checkpoint overtakes an older one just because its copies were quicker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from holdfast import clock
from holdfast.checkpoints.metadata import InputSnapshot, RegionSnapshot, SegmentSnapshot
from holdfast.checkpoints.store import CheckpointWriter
from holdfast.checkpoints.taking import (
    Checksums,
    Keeping,
    Pinned,
    copy_segment,
    keep_region,
    link_segment,
    pin,
)
from holdfast.protocol.flow import NOTHING, Cut
from holdfast.protocol.statistics import RegionFigures, TaskFigures
from holdfast.runtime.channels import Channel, Segment
from holdfast.runtime.epochs import SinkEpochs
from holdfast.runtime.regions import RunningRegion
from holdfast.runtime.work import Attempt
from holdfast.spark.tasks import task_times
from holdfast.steps import step
from holdfast.storage import open_storage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a region acknowledges with."""

    region: RegionSnapshot
    in_flight: tuple[SegmentSnapshot, ...]
    figures: RegionFigures


Answered = Callable[[Cut, "Answer | Exception"], None]


class Snapshots:
    """Makes snapshots of all regions of a job."""

    def __init__(
        self,
        attempt: Attempt,
        regions: Mapping[str, RunningRegion],
        channels: Mapping[str, Channel],
        sinks: Sequence[SinkEpochs],
        keeping: Keeping,
        spark: Any,
    ) -> None:
        self._attempt = attempt
        self._regions = regions
        self._channels = channels
        self._sinks = sinks
        self._promising = {sink.region for sink in sinks if sink.keeps_rows}
        """Regions whose segments a commit may need."""
        self._keeping = keeping
        self._spark = spark
        self._checksums = Checksums()
        self._sync = {uid: ThreadPoolExecutor(1, f"snapshot-{uid}") for uid in regions}
        self._copying = {uid: ThreadPoolExecutor(1, f"copy-{uid}") for uid in regions}
        self._deleting = ThreadPoolExecutor(1, "delete")

    def take(self, cut: Cut, writer: CheckpointWriter, full: bool, answered: Answered) -> None:
        """Start both phases; ``answered`` is called once, from another thread."""
        keeping = replace(self._keeping, incremental=False) if full else self._keeping
        self._sync[cut.region].submit(self._first_phase, cut, writer, keeping, answered)

    def close(self) -> None:
        """Wait for what is under way."""
        for pool in [*self._sync.values(), *self._copying.values(), self._deleting]:
            pool.shutdown(cancel_futures=False)

    def delete_segments(self, segments: Sequence[tuple[Channel, Segment]]) -> None:
        """Delete files of segments that nobody needs, in the background."""
        if segments:
            self._deleting.submit(self._delete, segments)

    def _delete(self, segments: Sequence[tuple[Channel, Segment]]) -> None:
        for channel, segment in segments:
            try:
                with step("delete"):
                    channel.delete(segment)
            except Exception:
                _log.exception("segment %s of %s was not deleted", segment.batch, channel.uid)

    def _first_phase(
        self, cut: Cut, writer: CheckpointWriter, keeping: Keeping, answered: Answered
    ) -> None:
        began = time.monotonic()
        pinned = None
        try:
            with step("pin"):
                pinned = self._pin(cut)
            self._pre_commit(cut)
            sync = time.monotonic() - began
            copying = self._copying[cut.region]
            copying.submit(self._second_phase, cut, pinned, writer, keeping, sync, answered)
        except Exception as error:
            _release(pinned)
            answered(cut, error)

    def _pin(self, cut: Cut) -> Pinned | None:
        if cut.batch == NOTHING:
            return None
        storage = self._attempt.storage
        pins = f"pins/{cut.checkpoint}-{cut.region}"
        return pin(self._attempt.region(cut.region), cut.batch, storage, pins)

    def _pre_commit(self, cut: Cut) -> None:
        for sink in self._sinks:
            if sink.region == cut.region:
                sink.pre_commit(cut.checkpoint, cut.batch)

    def _second_phase(
        self,
        cut: Cut,
        pinned: Pinned | None,
        writer: CheckpointWriter,
        keeping: Keeping,
        sync: float,
        answered: Answered,
    ) -> None:
        began = time.monotonic()
        try:
            answer = self._copy(cut, pinned, writer, keeping)
            figures = replace(
                answer.figures,
                sync=sync,
                async_=time.monotonic() - began,
                acknowledged=clock.now(),
            )
            statistics = {k: v for k, v in asdict(figures).items() if k != "tasks"}
            region = replace(answer.region, statistics=statistics)
            answered(cut, replace(answer, region=region, figures=figures))
        except Exception as error:
            answered(cut, error)
        finally:
            _release(pinned)

    def _copy(
        self, cut: Cut, pinned: Pinned | None, writer: CheckpointWriter, keeping: Keeping
    ) -> Answer:
        region = self._described(cut, pinned)
        written = 0
        if pinned is not None:
            owner = f"{self._attempt.number}/{cut.region}"
            kept = keep_region(writer, keeping, self._checksums, owner, pinned)
            region = replace(region, files=kept.files)
            written = kept.written
        segments = []
        for channel, number in self._segments_to_keep(cut):
            segment, size = self._keep_segment(channel, number, writer, keeping)
            segments.append(segment)
            written += size
        figures = RegionFigures(
            uid=cut.region,
            cut=cut.batch,
            acknowledged=0.0,
            start_delay=cut.start_delay,
            alignment=cut.alignment,
            sync=0.0,
            async_=0.0,
            state_size=region.size + sum(s.size for s in segments),
            checkpointed_size=written,
            in_flight=sum(s.size for s in segments),
            unaligned=cut.unaligned,
            tasks=self._tasks(cut),
        )
        return Answer(region, tuple(segments), figures)

    def _segments_to_keep(self, cut: Cut) -> list[tuple[str, int]]:
        """In-flight data, and rows that a sink will need to commit."""
        in_flight = [(channel, n) for channel, numbers in cut.in_flight.items() for n in numbers]
        staged = [
            (cut.region, number)
            for sink in self._sinks
            if sink.region == cut.region
            for number in sink.kept_segments(cut.checkpoint)
        ]
        return list(dict.fromkeys(in_flight + staged))

    def failed(self, checkpoint: int) -> None:
        """A checkpoint has failed: let its sinks forget their transactions."""
        for sink in self._sinks:
            sink.fail(checkpoint)
            self._sync[sink.region].submit(_abort_failed, sink)

    def _tasks(self, cut: Cut) -> tuple[TaskFigures, ...]:
        query = self._regions[cut.region].query
        if query is None or cut.batch == NOTHING:
            return ()
        try:
            found = task_times(self._spark, str(query.runId), cut.batch)
        except Exception:  # figures are not worth a checkpoint
            _log.exception("no task figures of region %s", cut.region)
            return ()
        return tuple(TaskFigures(task.index, task.seconds, task.finished) for task in found)

    def _keep_segment(
        self, channel: str, number: int, writer: CheckpointWriter, keeping: Keeping
    ) -> tuple[SegmentSnapshot, int]:
        segment = self._channels[channel].get(number)
        files = open_storage(self._channels[channel].location(segment.folder))
        owner = f"{self._attempt.number}/{channel}.{number}"
        # One that is both in flight and promised is kept by two regions, and must be the same file.
        keep = copy_segment if channel in self._promising else link_segment
        kept = keep(writer, keeping, owner, files, segment.files)
        return SegmentSnapshot(channel, number, kept.files), kept.written

    def _described(self, cut: Cut, pinned: Pinned | None) -> RegionSnapshot:
        running = self._regions[cut.region]
        plan = pinned.plan if pinned is not None else None
        return RegionSnapshot(
            uid=cut.region,
            cut=cut.batch,
            output_mode=running.region.output_mode,
            inputs=_inputs(running, cut, plan.offsets if plan else {}),
            schema=running.schema.jsonValue(),
            query_id=plan.query_id if plan else None,
            backend=plan.backend if plan else None,
            partitions=plan.partitions if plan else None,
            watermark_ms=plan.watermark_ms if plan else 0,
            operators=tuple(asdict(operator) for operator in plan.operators) if plan else (),
        )


def _inputs(
    running: RunningRegion, cut: Cut, offsets: Mapping[str, str | None]
) -> tuple[InputSnapshot, ...]:
    """Channels by name; the offsets of sources in the order of the query's plan."""
    channels = [
        InputSnapshot(uid, "channel", cut.positions[uid], at) for uid, at in cut.barriers.items()
    ]
    others = [uid for uid in running.region.reads if uid not in cut.barriers]
    of_sources = [o for o in offsets.values() if not (o or "").startswith('{"channel"')]
    exact = len(others) == len(of_sources)
    sources = [
        InputSnapshot(others[at] if exact else f"source {at}", "source", offset=offset)
        for at, offset in enumerate(of_sources)
    ]
    return (*channels, *sources)


def _abort_failed(sink: SinkEpochs) -> None:
    try:
        sink.abort_failed()
    except Exception:  # the next checkpoint tries again
        _log.exception("a transaction of sink %s was not aborted", sink.uid)


def _release(pinned: Pinned | None) -> None:
    if pinned is not None:
        try:
            pinned.release()
        except Exception:
            _log.exception("pins were not removed")
