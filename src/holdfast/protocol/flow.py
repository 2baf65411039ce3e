"""How barriers flow through the graph: gates, alignment, cuts.

The flow knows of every region the last committed batch and of every channel how far each reader
has read it. A *position* in a channel is the number of the next segment to read; segment b is the
output of batch b of the producer, so a channel that is read to its end has position
``last batch of the producer + 1``. A barrier behind batch b lies at position b + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

NOTHING = -1
"""The last batch of a region that has committed none."""


class Alignment(Enum):
    """What a gate does between the first barrier of a checkpoint and the last."""

    ALIGNED = "aligned"
    """Holds each channel at its barrier."""
    UNALIGNED = "unaligned"
    """Cuts at once; what lies before the barriers is in-flight data."""
    PASSING = "passing"
    """At least once: holds nothing."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a checkpoint cuts a region, and what that cost."""

    region: str
    checkpoint: int
    batch: int
    """The last batch that is included; ``NOTHING`` if the region had not finished one."""
    positions: Mapping[str, int]
    """How far each input channel has been read at the cut."""
    barriers: Mapping[str, int]
    """Where the barrier lies in each input channel."""
    unaligned: bool
    start_delay: float
    """From the trigger until the first barrier was there."""
    alignment: float
    """From the first barrier reached until the last one was."""

    @property
    def in_flight(self) -> dict[str, range]:
        """Segments before a barrier that the region has not read at its cut."""
        return {c: range(self.positions[c], at) for c, at in self.barriers.items()}

    @property
    def read_behind(self) -> dict[str, range]:
        """Segments behind a barrier that are in the state already (at least once)."""
        return {c: range(at, self.positions[c]) for c, at in self.barriers.items()}


@dataclass(slots=True)
class _Gate:
    """One region's side of the checkpoints that have not cut it yet."""

    inputs: tuple[str, ...]
    batch: int
    positions: dict[str, int]
    barriers: dict[int, dict[str, int]] = field(default_factory=dict)
    first_barrier: dict[int, float] = field(default_factory=dict)
    first_reached: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Running:
    """A checkpoint that has not cut every region."""

    alignment: Alignment
    triggered: float
    waiting: set[str]


class Flow:
    """The barriers of all checkpoints in flight.

    ``inputs`` says which channels each region reads, producers first; ``batches`` and
    ``positions`` where each one stands. Every change returns the cuts it led to, producers first.
    """

    def __init__(
        self,
        inputs: Mapping[str, tuple[str, ...]],
        batches: Mapping[str, int],
        positions: Mapping[str, Mapping[str, int]],
    ) -> None:
        self._gates = {
            uid: _Gate(channels, batches[uid], {c: positions[uid].get(c, 0) for c in channels})
            for uid, channels in inputs.items()
        }
        self._running: dict[int, _Running] = {}

    def last_batch(self, region: str) -> int:
        """The last committed batch."""
        return self._gates[region].batch

    def position(self, region: str, channel: str) -> int:
        """How far the region's committed batches have read the channel."""
        return self._gates[region].positions[channel]

    def readable(self, region: str, channel: str) -> int:
        """The position up to which the region may read the channel now."""
        end = self._gates[channel].batch + 1
        held = [
            barriers[channel]
            for checkpoint, barriers in self._gates[region].barriers.items()
            if channel in barriers and self._holds(checkpoint)
        ]
        return min([end, *held])

    def trigger(self, checkpoint: int, alignment: Alignment, now: float) -> list[Cut]:
        """Put the barrier behind the last committed batch of every region without channels."""
        self._running[checkpoint] = _Running(alignment, now, set(self._gates))
        return self._advance(now)

    def committed(
        self, region: str, batch: int, positions: Mapping[str, int], now: float
    ) -> list[Cut]:
        """A region has committed a batch, having read its channels up to ``positions``."""
        gate = self._gates[region]
        gate.batch = batch
        gate.positions.update(positions)
        return self._advance(now)

    def overtake(self, checkpoint: int, now: float) -> list[Cut]:
        """Turn a checkpoint that is still aligning into an unaligned one."""
        running = self._running.get(checkpoint)
        if running is None or running.alignment is not Alignment.ALIGNED:
            return []
        running.alignment = Alignment.UNALIGNED
        return self._advance(now)

    def abort(self, checkpoint: int) -> None:
        """Take the checkpoint's barriers out of all channels."""
        self._running.pop(checkpoint, None)
        for gate in self._gates.values():
            _forget(gate, checkpoint)

    def _holds(self, checkpoint: int) -> bool:
        running = self._running.get(checkpoint)
        return running is not None and running.alignment is Alignment.ALIGNED

    def _advance(self, now: float) -> list[Cut]:
        cuts = []
        for checkpoint in sorted(self._running):  # barriers never overtake each other
            for region, gate in self._gates.items():  # producers first
                if region in self._running[checkpoint].waiting:
                    self._reach(gate, checkpoint, now)
                    if self._may_cut(gate, checkpoint):
                        cuts.append(self._cut(region, gate, checkpoint, now))
            if not self._running[checkpoint].waiting:
                del self._running[checkpoint]
        return cuts

    def _reach(self, gate: _Gate, checkpoint: int, now: float) -> None:
        barriers = gate.barriers.get(checkpoint, {})
        if barriers:
            gate.first_barrier.setdefault(checkpoint, now)
        if any(gate.positions[channel] >= at for channel, at in barriers.items()):
            gate.first_reached.setdefault(checkpoint, now)

    def _may_cut(self, gate: _Gate, checkpoint: int) -> bool:
        barriers = gate.barriers.get(checkpoint, {})
        if len(barriers) < len(gate.inputs):
            return False
        if self._running[checkpoint].alignment is Alignment.UNALIGNED:
            return True
        return all(gate.positions[channel] >= at for channel, at in barriers.items())

    def _cut(self, region: str, gate: _Gate, checkpoint: int, now: float) -> Cut:
        running = self._running[checkpoint]
        cut = Cut(
            region=region,
            checkpoint=checkpoint,
            batch=gate.batch,
            positions=dict(gate.positions),
            barriers=dict(gate.barriers.get(checkpoint, {})),
            unaligned=running.alignment is Alignment.UNALIGNED and bool(gate.inputs),
            start_delay=gate.first_barrier.get(checkpoint, now) - running.triggered,
            alignment=now - gate.first_reached.get(checkpoint, now),
        )
        running.waiting.discard(region)
        _forget(gate, checkpoint)
        for reader in self._gates.values():
            if region in reader.inputs:
                reader.barriers.setdefault(checkpoint, {})[region] = cut.batch + 1
        return cut


def _forget(gate: _Gate, checkpoint: int) -> None:
    gate.barriers.pop(checkpoint, None)
    gate.first_barrier.pop(checkpoint, None)
    gate.first_reached.pop(checkpoint, None)
