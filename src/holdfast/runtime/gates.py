"""The gates of all regions: what may be read now, and waiting for it.

One lock guards the flow of barriers. Whatever changes it (a batch committed, a checkpoint
triggered, aborted, overtaken) wakes those who wait; cuts are handed to ``on_cuts`` inside the
lock, in order, so that a barrier is always where the coordinator thinks it is.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from holdfast import clock
from holdfast.protocol.flow import Alignment, Cut, Flow
from holdfast.protocol.segments import deletable
from holdfast.runtime.channels import Channel, Segment
from holdfast.spark.streams import DataFile
from holdfast.steps import step

LONGEST_WAIT = 1.0
"""Seconds after which Spark is told "nothing new", so that it can look after its query."""


class Gates:
    """The flow, its channels, and those who wait at them."""

    def __init__(
        self,
        flow: Flow,
        channels: Mapping[str, Channel],
        readers: Mapping[str, Sequence[str]],
        on_cuts: Callable[[list[Cut]], None],
    ) -> None:
        self.channels = channels
        self._flow = flow
        self._readers = readers
        self._on_cuts = on_cuts
        self._changed = threading.Condition()
        self._ended: set[str] = set()
        self._stopping = False
        self._released: set[str] = set()
        self._pinned: dict[tuple[str, int], int] = {}
        self._sinks: dict[str, dict[str, int]] = {uid: {} for uid in channels}
        self._refusing: dict[str, set[str]] = {uid: set() for uid in channels}
        """By channel, sinks that could not commit when they tried last."""

    # What changes the flow

    def committed(self, region: str, batch: int, positions: Mapping[str, int]) -> None:
        """A region's batch is in its query log."""
        with self._changed:
            if batch > self._flow.last_batch(region):
                self._pass_on(self._flow.committed(region, batch, positions, clock.now()))

    def trigger(self, checkpoint: int, alignment: Alignment) -> None:
        """Put barriers behind the sources."""
        with self._changed, step("barrier"):
            self._pass_on(self._flow.trigger(checkpoint, alignment, clock.now()))

    def overtake(self, checkpoint: int) -> None:
        """Turn a checkpoint unaligned."""
        with self._changed:
            self._pass_on(self._flow.overtake(checkpoint, clock.now()))

    def abort(self, checkpoint: int) -> None:
        """Take a checkpoint's barriers away."""
        with self._changed:
            self._flow.abort(checkpoint)
            self._changed.notify_all()

    def _pass_on(self, cuts: list[Cut]) -> None:
        for cut in cuts:
            for channel, segments in cut.in_flight.items():
                self._pin(channel, segments)
        if cuts:
            self._on_cuts(cuts)
        self._changed.notify_all()

    def end(self, region: str) -> None:
        """The region will commit no further batch."""
        with self._changed:
            self._ended.add(region)
            self._changed.notify_all()

    def stop(self) -> None:
        """Let everybody go who waits, now and from now on."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def release(self, regions: Collection[str]) -> None:
        """Let the queries of these regions go wherever they wait: they are being stopped."""
        with self._changed:
            self._released.update(regions)
            self._changed.notify_all()

    def hold_again(self, regions: Collection[str]) -> None:
        """Their queries start anew, and wait as they should."""
        with self._changed:
            self._released.difference_update(regions)

    def _is_let_go(self, region: str) -> bool:
        return self._stopping or region in self._released

    # What regions ask

    def last_batch(self, region: str) -> int:
        """The last batch that was committed."""
        with self._changed:
            return self._flow.last_batch(region)

    def position(self, region: str, channel: str) -> int:
        """How far committed batches have read."""
        with self._changed:
            return self._flow.position(region, channel)

    def readable(self, region: str, channel: str) -> int:
        """How far the region may read now."""
        with self._changed:
            return self._flow.readable(region, channel)

    def exhausted(self, region: str, channels: Collection[str]) -> bool:
        """Whether all these channels have ended and the region has read them to the end."""
        with self._changed:
            return all(self._is_at_end(c, self._flow.position(region, c)) for c in channels)

    def _is_at_end(self, channel: str, position: int) -> bool:
        return channel in self._ended and position > self._flow.last_batch(channel)

    def wait_for_input(self, region: str, starts: Mapping[str, int], seconds: float) -> None:
        """Wait until one of the channels can be read beyond its start, or for that long.

        Not if all have ended: nothing will come, and whoever ends the query waits for this answer.
        """

        def no_more_to_wait_for() -> bool:
            return (
                self._is_let_go(region)
                or any(self._flow.readable(region, c) > start for c, start in starts.items())
                or all(self._is_at_end(channel, start) for channel, start in starts.items())
            )

        with self._changed:
            self._changed.wait_for(no_more_to_wait_for, seconds)

    def wait_for_room(self, region: str, capacity: int) -> Iterator[float]:
        """Wait until readers and sinks have caught up; yields the seconds as they pass.

        A sink's rows wait for their checkpoint, and nobody waits for that. But if the sink cannot
        commit, no checkpoint will complete, and what is staged behind it must not grow for ever.
        """
        has_room = False
        while not has_room:
            began = time.monotonic()
            with self._changed:
                has_room = self._changed.wait_for(
                    lambda: self._is_let_go(region) or self._has_room(region, capacity),
                    LONGEST_WAIT,
                )
            yield time.monotonic() - began

    def _has_room(self, channel: str, capacity: int) -> bool:
        return max(self.unread(channel), self.refused(channel)) <= capacity

    def refused(self, channel: str) -> int:
        """Bytes that are staged for the slowest of the sinks that cannot commit."""
        with self._changed:
            sinks = {uid: self._sinks[channel].get(uid, 0) for uid in self._refusing[channel]}
            return self.channels[channel].unread(sinks, self._flow.last_batch(channel) + 1)

    def unread(self, channel: str) -> int:
        """Bytes that the slowest reader of a channel has not read."""
        with self._changed:
            return self.channels[channel].unread(
                self._positions(channel), self._flow.last_batch(channel) + 1
            )

    def _positions(self, channel: str) -> dict[str, int]:
        return {r: self._flow.position(r, channel) for r in self._readers.get(channel, ())}

    # Which segments stay

    def sink_done(self, region: str, sink: str, position: int) -> None:
        """A sink needs no segment before ``position``."""
        with self._changed:
            self._sinks[region][sink] = position
            self._refusing[region].discard(sink)
            self._changed.notify_all()

    def sink_refused(self, region: str, sink: str) -> None:
        """A sink could not commit; it tries again until ``sink_done``."""
        with self._changed:
            self._refusing[region].add(sink)

    def _pin(self, channel: str, segments: range) -> None:
        for segment in segments:
            self._pinned[channel, segment] = self._pinned.get((channel, segment), 0) + 1

    def unpin(self, cut: Cut) -> None:
        """The in-flight segments of a cut are safe, or not wanted any more."""
        with self._changed:
            for channel, segments in cut.in_flight.items():
                for segment in segments:
                    self._pinned[channel, segment] -= 1
                    if not self._pinned[channel, segment]:
                        del self._pinned[channel, segment]

    def take_unneeded(self) -> list[tuple[Channel, Segment]]:
        """Forget segments that nobody will read; the caller deletes their files."""
        with self._changed:
            return [
                (channel, segment)
                for uid, channel in self.channels.items()
                for segment in channel.take_away(self._unneeded(uid))
            ]

    def _unneeded(self, uid: str) -> list[int]:
        pinned = {segment for channel, segment in self._pinned if channel == uid}
        return deletable(
            self.channels[uid].batches(), self._positions(uid), self._sinks[uid], pinned
        )


class RegionGate:
    """The channels of one region as Spark asks for them, one after the other, in rounds.

    After a round with news the next one answers at once even if there is nothing: Spark may want a
    batch without data to move its watermark. So does the first round, but not that of a region
    that has no batch yet: its batch would be empty. Otherwise a round waits, at its first channel,
    for any of them. A region that also reads sources never waits, for they cannot wake it.
    """

    def __init__(
        self,
        gates: Gates,
        region: str,
        channels: Sequence[str],
        may_wait: bool,
        batch_bytes: int,
        is_new: bool = False,
    ) -> None:
        self._gates = gates
        self._region = region
        self._channels = channels
        self._may_wait = may_wait
        self._batch_bytes = batch_bytes
        self._starts = dict.fromkeys(channels, 0)
        self._first: str | None = None
        self._news = not is_new

    def next_end(self, channel: str, start: int) -> int:
        """How far the next batch may read."""
        self._starts[channel] = start
        if self._first is None:
            self._first = channel
        if channel == self._first:
            if not self._news and self._may_wait:
                self._gates.wait_for_input(self._region, self._starts, LONGEST_WAIT)
            self._news = False
        end = self._bounded(channel, start, self._gates.readable(self._region, channel))
        self._news = self._news or end > start
        return end

    def _bounded(self, channel: str, start: int, end: int) -> int:
        """Not more than a batch's worth, but at least one segment."""
        taken = start
        size = 0
        while taken < end:
            size += self._gates.channels[channel].get(taken).size
            if taken > start and size > self._batch_bytes:
                break
            taken += 1
        return taken


class ChannelSteering:
    """Answers Spark about one input channel of one region; a ``FileSteering``."""

    def __init__(self, gate: RegionGate, gates: Gates, region: str, channel: Channel) -> None:
        self._gate = gate
        self._gates = gates
        self._region = region
        self._channel = channel

    def initial(self) -> str:
        """The first segment."""
        return encode_position(self._channel.uid, 0)

    def latest(self, start: str | None) -> str:
        """How far the gate lets the next batch read."""
        begin = 0 if start is None else decode_position(start)
        return encode_position(self._channel.uid, self._gate.next_end(self._channel.uid, begin))

    def newest(self) -> str:
        """The end of the channel, whatever the gate says."""
        return encode_position(self._channel.uid, self._gates.last_batch(self._channel.uid) + 1)

    def committed(self, end: str) -> None:
        """Comes later than what the listener tells."""

    def files(self, start: str, end: str) -> Sequence[DataFile]:
        """The files of the segments between two positions."""
        return self._channel.data_files(decode_position(start), decode_position(end))


def encode_position(channel: str, segment: int) -> str:
    """An offset in a channel: the next segment to read."""
    return json.dumps({"channel": channel, "segment": segment}, separators=(",", ":"))


def decode_position(offset: str) -> int:
    """The next segment to read."""
    return int(json.loads(offset)["segment"])


def channel_positions(offsets: Collection[str | None]) -> dict[str, int]:
    """Of all offsets of a query, the positions in channels."""
    found = {}
    for offset in offsets:
        item = json.loads(offset) if offset and offset.startswith("{") else None
        if isinstance(item, dict) and "channel" in item:
            found[str(item["channel"])] = int(item["segment"])
    return found
