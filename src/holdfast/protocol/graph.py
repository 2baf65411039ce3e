"""The job as data: sources, regions, sinks, and who reads whom."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Build = Callable[..., Any]
"""Turns input DataFrames into the DataFrame that a region computes."""

OUTPUT_MODES = ("append", "update", "complete")
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from: ``open`` is given the Spark session and returns a streaming DataFrame.

    Each region that reads a source opens it for itself and keeps its own position.
    """

    uid: str
    open: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Region:
    """One Structured Streaming query."""

    uid: str
    reads: tuple[str, ...]
    build: Build
    output_mode: str = "append"


@dataclass(frozen=True, slots=True)
class SinkUse:
    """A sink that takes the rows of a region."""

    uid: str
    region: str
    sink: Any


@dataclass(frozen=True)
class Graph:
    """A job whose uids are unique and whose regions form no cycle; regions in flow order."""

    name: str
    sources: Mapping[str, Source]
    regions: Mapping[str, Region]
    sinks: Mapping[str, SinkUse]

    @cached_property
    def channels(self) -> Mapping[str, tuple[str, ...]]:
        """Of each region that others read, those others."""
        readers = {uid: self._readers(uid) for uid in self.regions}
        return {uid: found for uid, found in readers.items() if found}

    def _readers(self, uid: str) -> tuple[str, ...]:
        return tuple(r.uid for r in self.regions.values() if uid in r.reads)

    def inputs(self, region: str) -> tuple[str, ...]:
        """The regions whose channels this one reads."""
        return tuple(uid for uid in self.regions[region].reads if uid in self.regions)

    def sinks_of(self, region: str) -> tuple[SinkUse, ...]:
        """The sinks that take this region's rows."""
        return tuple(use for use in self.sinks.values() if use.region == region)


def is_name(text: str) -> bool:
    """Whether a job or an element may be called so: it becomes the name of a directory."""
    return _UID.fullmatch(text) is not None


def build_graph(
    name: str, sources: Sequence[Source], regions: Sequence[Region], sinks: Sequence[SinkUse]
) -> Graph | list[str]:
    """The graph, or everything that is wrong with it in sentences."""
    problems = [
        *_name_problems(name, sources, regions, sinks),
        *_input_problems(sources, regions),
        *_sink_problems(regions, sinks),
        *_use_problems(sources, regions, sinks),
        *_cycle_problems(regions),
    ]
    if problems:
        return problems
    return Graph(
        name,
        {s.uid: s for s in sources},
        {r.uid: r for r in in_flow_order(regions)},
        {s.uid: s for s in sinks},
    )


def _name_problems(
    name: str, sources: Sequence[Source], regions: Sequence[Region], sinks: Sequence[SinkUse]
) -> Iterator[str]:
    if not is_name(name):
        yield f"the job's name {name!r} must be letters, digits, '_', '-' and '.', at most 100"
    if not regions:
        yield "the job has no region: add one with @job.region(uid, reads=…)"
    seen: dict[str, tuple[str, str]] = {}  # files and tables may not tell cases apart
    for kind, uid in _uids(sources, regions, sinks):
        if not isinstance(uid, str) or not is_name(uid):
            yield (
                f"{kind} uid {uid!r} must be given, as letters, digits, '_', '-' and '.', "
                "at most 100: state is mapped by it"
            )
            continue
        if uid.lower() in seen:
            other, its_kind = seen[uid.lower()]
            same = "is used twice" if other == uid else f"differs from {other!r} only in case"
            yield f"uid {uid!r} {same}, by a {its_kind} and by a {kind}"
        seen.setdefault(uid.lower(), (uid, kind))


def _uids(
    sources: Sequence[Source], regions: Sequence[Region], sinks: Sequence[SinkUse]
) -> Iterator[tuple[str, str]]:
    yield from (("source", s.uid) for s in sources)
    yield from (("region", r.uid) for r in regions)
    yield from (("sink", s.uid) for s in sinks)


def _input_problems(sources: Sequence[Source], regions: Sequence[Region]) -> Iterator[str]:
    known = [s.uid for s in sources] + [r.uid for r in regions]
    for region in regions:
        if not region.reads:
            yield f"region {region.uid!r} reads nothing: say reads=<a source or a region>"
        for uid in dict.fromkeys(region.reads):
            if uid not in known:
                near = _nearest(uid, known)
                yield f"region {region.uid!r} reads {uid!r}, which is not there{near}"
        for uid in dict.fromkeys(u for u in region.reads if region.reads.count(u) > 1):
            yield f"region {region.uid!r} names {uid!r} twice: name it once and use it twice"
        if region.output_mode not in OUTPUT_MODES:
            allowed = ", ".join(OUTPUT_MODES)
            yield (
                f"region {region.uid!r} has output mode {region.output_mode!r}; there are {allowed}"
            )


def _sink_problems(regions: Sequence[Region], sinks: Sequence[SinkUse]) -> Iterator[str]:
    known = [r.uid for r in regions]
    for use in sinks:
        if use.region not in known:
            yield (
                f"sink {use.uid!r} takes the rows of {use.region!r}, which is not a region"
                f"{_nearest(use.region, known)}"
            )


def _use_problems(
    sources: Sequence[Source], regions: Sequence[Region], sinks: Sequence[SinkUse]
) -> Iterator[str]:
    read = {uid for r in regions for uid in r.reads}
    taken = {use.region for use in sinks}
    yield from (
        f"source {s.uid!r} is read by no region: remove it or read it"
        for s in sources
        if s.uid not in read
    )
    yield from (
        f"region {r.uid!r} is read by nothing: give it a sink with job.sink(uid, region, sink)"
        for r in regions
        if r.uid not in read and r.uid not in taken
    )


def _cycle_problems(regions: Sequence[Region]) -> Iterator[str]:
    ordered = {r.uid for r in in_flow_order(regions)}
    stuck = [r.uid for r in regions if r.uid not in ordered]
    if stuck:
        yield f"regions read each other in a circle: {', '.join(stuck)}"


def in_flow_order(regions: Iterable[Region]) -> list[Region]:
    """Producers before consumers; those in or behind a circle are left out."""
    waiting = list(regions)
    uids = {r.uid for r in waiting}
    ordered: list[Region] = []
    done: set[str] = set()
    while ready := [r for r in waiting if all(u in done or u not in uids for u in r.reads)]:
        ordered += ready
        done |= {r.uid for r in ready}
        waiting = [r for r in waiting if r.uid not in done]
    return ordered


def _nearest(uid: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(str(uid), known, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""
