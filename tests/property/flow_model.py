"""A job whose every row is numbered and followed, run against the flow of barriers.

What a checkpoint holds is counted twice: once from the rows that the regions really read, once
from nothing but the sources' cuts and the paths of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.protocol.flow import Alignment, Cut, Flow

Rows = Counter[tuple[str, int]]
"""How often which row (source, number) has come."""

Graph = dict[str, tuple[str, ...]]
"""The channels that each region reads, producers first."""


@dataclass(slots=True)
class Region:
    """What a region has really done."""

    name: str
    inputs: tuple[str, ...]
    has_source: bool
    segments: list[Rows] = field(default_factory=list)
    """What each batch put out: everything that it read."""
    positions: dict[str, int] = field(default_factory=dict)
    planned: dict[str, int] | None = None
    """How far the batch that is running reads."""
    source_rows: int = 0
    finished: bool = False

    @property
    def batch(self) -> int:
        return len(self.segments) - 1

    def rows_upto(self, batch: int) -> Rows:
        return _sum(self.segments[: batch + 1])


@dataclass(slots=True)
class Checkpoint:
    """What the flow has said about one checkpoint."""

    alignment: Alignment
    cuts: dict[str, Cut] = field(default_factory=dict)


class Model:
    """Runs regions against a flow, and checks after every step."""

    def __init__(self, graph: Graph, sources: set[str]) -> None:
        self.graph = graph
        self.regions = {
            uid: Region(uid, inputs, uid in sources, positions=dict.fromkeys(inputs, 0))
            for uid, inputs in graph.items()
        }
        self.running: dict[int, Checkpoint] = {}
        self.complete: dict[int, Checkpoint] = {}
        self.next_id = 1
        self.clock = 0.0
        self.flow = self._new_flow()

    def _new_flow(self) -> Flow:
        return Flow(
            self.graph,
            {uid: region.batch for uid, region in self.regions.items()},
            {uid: dict(region.positions) for uid, region in self.regions.items()},
        )

    # Steps

    def step(self, kind: str, which: int, how_much: int) -> None:
        self.clock += 1
        region = list(self.regions.values())[which % len(self.regions)]
        match kind:
            case "plan":
                self._plan(region, how_much)
            case "commit":
                self._commit(region, how_much)
            case "batch":
                self._plan(region, how_much)
                self._commit(region, how_much)
            case "finish":
                self._finish(region)
            case "overtake" if self.running:
                self._overtake(self._some_running(which))
            case "abort" if self.running:
                self._abort(self._some_running(which))
            case "restart":
                self._restart()
            case "aligned" | "unaligned" | "passing":
                self._trigger(Alignment(kind))
        self.check()

    def _some_running(self, which: int) -> int:
        return sorted(self.running)[which % len(self.running)]

    def _plan(self, region: Region, how_much: int) -> None:
        """A batch begins to run: how far it reads is decided now, and committed later."""
        if region.planned is None and not region.finished:
            region.planned = {
                channel: min(
                    region.positions[channel] + how_much, self.flow.readable(region.name, channel)
                )
                for channel in region.inputs
            }

    def _commit(self, region: Region, source_rows: int) -> None:
        if region.planned is None:
            return
        read = _sum(
            self.regions[channel].segments[at]
            for channel, end in region.planned.items()
            for at in range(region.positions[channel], end)
        )
        if region.has_source:
            first = region.source_rows
            region.source_rows += source_rows
            read.update((region.name, row) for row in range(first, region.source_rows))
        region.segments.append(read)
        region.positions, positions = {**region.planned}, region.planned
        region.planned = None
        self._take(self.flow.committed(region.name, region.batch, positions, self.clock))

    def _finish(self, region: Region) -> None:
        """Its input has ended and was read: it will never commit again."""
        ended = all(
            self.regions[c].finished and region.positions[c] == len(self.regions[c].segments)
            for c in region.inputs
        )
        region.finished = region.finished or (ended and region.planned is None)

    def _trigger(self, alignment: Alignment) -> None:
        self.running[self.next_id] = Checkpoint(alignment)
        self.next_id += 1
        self._take(self.flow.trigger(self.next_id - 1, alignment, self.clock))

    def _overtake(self, checkpoint: int) -> None:
        if self.running[checkpoint].alignment is Alignment.ALIGNED:
            self.running[checkpoint].alignment = Alignment.UNALIGNED
        self._take(self.flow.overtake(checkpoint, self.clock))

    def _abort(self, checkpoint: int) -> None:
        self.flow.abort(checkpoint)
        del self.running[checkpoint]

    def _restart(self) -> None:
        """The process died: batches that ran are run again, checkpoints in flight are gone."""
        self.running.clear()
        for region in self.regions.values():
            region.planned = None
        self.flow = self._new_flow()

    def _take(self, cuts: list[Cut]) -> None:
        for cut in cuts:
            checkpoint = self.running[cut.checkpoint]
            assert cut.region not in checkpoint.cuts, "cut twice"
            assert cut.batch == self.regions[cut.region].batch
            producers = set(self.graph[cut.region])
            assert producers <= set(checkpoint.cuts), "cut before its producers"
            self._check_order(cut)
            checkpoint.cuts[cut.region] = cut
        for number in [n for n, c in self.running.items() if len(c.cuts) == len(self.graph)]:
            self.complete[number] = self.running.pop(number)
            self._check_complete(self.complete[number])

    # Checks

    def check(self) -> None:
        for name, region in self.regions.items():
            assert self.flow.last_batch(name) == region.batch
            for channel in region.inputs:
                assert self.flow.position(name, channel) == region.positions[channel]
                assert self.flow.readable(name, channel) == self._readable(name, channel)
        for checkpoint in self.running.values():
            for name in set(self.graph) - set(checkpoint.cuts):
                assert not self._could_cut(name, checkpoint), f"{name} could have been cut"

    def _readable(self, region: str, channel: str) -> int:
        """To the end, or to the first barrier of an aligned checkpoint that waits for the region;
        nothing else is held."""
        return min(
            [self.regions[channel].batch + 1]
            + [
                checkpoint.cuts[channel].batch + 1
                for checkpoint in self.running.values()
                if checkpoint.alignment is Alignment.ALIGNED
                and channel in checkpoint.cuts
                and region not in checkpoint.cuts
            ]
        )

    def _could_cut(self, region: str, checkpoint: Checkpoint) -> bool:
        """Whether every barrier is there and, unless it overtakes, was reached."""
        return all(
            channel in checkpoint.cuts
            and (
                checkpoint.alignment is Alignment.UNALIGNED
                or self.regions[region].positions[channel] > checkpoint.cuts[channel].batch
            )
            for channel in self.graph[region]
        )

    def _check_order(self, cut: Cut) -> None:
        """Only a barrier that overtakes may come before an older one."""
        if self.running[cut.checkpoint].alignment is Alignment.UNALIGNED:
            return
        for number, older in self.running.items():
            if number < cut.checkpoint:
                assert cut.region in older.cuts, "cut before an older checkpoint"

    def _check_complete(self, checkpoint: Checkpoint) -> None:
        in_flight = {uid: self._rows(c.in_flight) for uid, c in checkpoint.cuts.items()}
        behind = {uid: self._rows(c.read_behind) for uid, c in checkpoint.cuts.items()}
        for name, cut in checkpoint.cuts.items():
            for channel in self.graph[name]:
                assert cut.barriers[channel] == checkpoint.cuts[channel].batch + 1
            if checkpoint.alignment is Alignment.ALIGNED:
                assert cut.positions == cut.barriers
                assert not cut.unaligned
            assert not in_flight[name] or checkpoint.alignment is Alignment.UNALIGNED
            assert not behind[name] or checkpoint.alignment is Alignment.PASSING
            state = self.regions[name].rows_upto(cut.batch)
            restored = state + self._through(in_flight, name)
            assert restored == self._recount(checkpoint, name) + self._through(behind, name)

    def _rows(self, segments: dict[str, range]) -> Rows:
        return _sum(self.regions[c].segments[at] for c, some in segments.items() for at in some)

    def _recount(self, checkpoint: Checkpoint, region: str) -> Rows:
        """What a region must have seen: each source row before the cut, once for each path."""
        own = {
            uid: Counter(
                {
                    row: n
                    for row, n in r.rows_upto(checkpoint.cuts[uid].batch).items()
                    if row[0] == uid
                }
            )
            for uid, r in self.regions.items()
        }
        return self._through(own, region)

    def _through(self, entering: dict[str, Rows], region: str) -> Rows:
        """Of rows that enter the graph at regions, those that come to one of them."""
        return _sum(
            Counter({row: n * paths for row, n in rows.items()})
            for uid, rows in entering.items()
            if (paths := _paths(self.graph, uid, region))
        )

    def run_dry(self) -> None:
        """Everybody reads what is there; no new row comes from outside."""
        for _ in range(len(self.graph) * (len(self.running) + 1) + 1):
            for region in self.regions.values():
                self._commit(region, 0)
                if any(
                    self.flow.readable(region.name, c) > region.positions[c] for c in region.inputs
                ):
                    self._plan(region, 10**6)
                    self._commit(region, 0)
                self.check()


def _sum(parts: Iterable[Rows]) -> Rows:
    total: Rows = Counter()
    for part in parts:
        total.update(part)
    return total


def _paths(graph: Graph, start: str, end: str) -> int:
    return 1 if start == end else sum(_paths(graph, start, channel) for channel in graph[end])
