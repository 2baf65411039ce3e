"""Jobs as data, so that a process can build one and the recount can follow it.

Every row has a source ``s`` and a number ``n``. Regions: ``pass`` lets some rows through and unites
its inputs, ``python`` does it by a function in Python, ``count`` counts per key, ``join`` pairs its
two inputs by number, ``window`` counts per stretch of numbers, taken as time.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, replace
from typing import Any

KEYS = 5
WINDOW = 100
"""Row numbers per window."""


@dataclass(frozen=True)
class SourceSpec:
    uid: str
    rows: int
    rows_per_batch: int
    rows_per_second: float


@dataclass(frozen=True)
class RegionSpec:
    uid: str
    kind: str
    reads: tuple[str, ...]
    modulus: int = 3


@dataclass(frozen=True)
class JobSpec:
    sources: tuple[SourceSpec, ...]
    regions: tuple[RegionSpec, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    stores: dict[str, str] = field(default_factory=dict)
    """Databases that get everything that the files get, by kind, and where they are."""
    topics: dict[str, str] = field(default_factory=dict)
    """Kafka topics for the rows of stateless regions, by uid, as ``servers/topic``."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def leaves(self) -> list[RegionSpec]:
        read = {uid for region in self.regions for uid in region.reads}
        return [region for region in self.regions if region.uid not in read]

    @property
    def with_sink(self) -> list[RegionSpec]:
        """Leaves, and everything stateless on the way."""
        return [r for r in self.regions if r.kind != "count" or r in self.leaves]


def from_dict(item: dict[str, Any]) -> JobSpec:
    return JobSpec(
        tuple(SourceSpec(**s) for s in item["sources"]),
        tuple(RegionSpec(**{**r, "reads": tuple(r["reads"])}) for r in item["regions"]),
        item["settings"],
        item["stores"],
        item["topics"],
    )


def keeps(region: RegionSpec, n: int) -> bool:
    return n % region.modulus != 0


def hurried(job: JobSpec, rows_per_batch: int = 20_000) -> JobSpec:
    """The same rows, as fast as they can be read."""
    quick = [replace(s, rows_per_second=1e9, rows_per_batch=rows_per_batch) for s in job.sources]
    return replace(job, sources=tuple(quick))


def chain(rows: int = 6000) -> JobSpec:
    """Two sources of different speed, a union, a count: the page-view job."""
    return JobSpec(
        (SourceSpec("fast", rows, 400, 4000), SourceSpec("slow", rows // 4, 60, 700)),
        (
            RegionSpec("left", "pass", ("fast",)),
            RegionSpec("right", "pass", ("slow",), 4),
            RegionSpec("both", "count", ("left", "right")),
        ),
    )


LASTS = 40
"""Seconds of rows in a random job: more than its lives take that end with a kill."""


def random_spec(seed: int) -> JobSpec:
    """Two to four regions: fan-in, fan-out, join, a region that reads a source and a channel."""
    dice = random.Random(seed)
    sources = [
        SourceSpec(f"s{at}", LASTS * pace, dice.randint(30, 150), pace)
        for at in range(dice.choice([1, 2, 2]))
        for pace in [dice.choice([50, 110, 260])]
    ]
    regions: list[RegionSpec] = []
    for at in range(dice.choice([2, 3, 3, 4, 4])):
        stateless = [r.uid for r in regions if r.kind != "count"]
        choices = [s.uid for s in sources] + stateless * 3
        wanted = min(len(set(choices)), dice.choice([1, 2]))
        reads: list[str] = []
        while len(reads) < wanted:
            pick = dice.choice(choices)
            if pick not in reads:
                reads.append(pick)
        kinds = ["pass", "pass", "count"] + (["join"] if len(reads) == 2 else [])
        regions.append(RegionSpec(f"r{at}", dice.choice(kinds), tuple(reads), dice.randint(2, 5)))
    used = {uid for region in regions for uid in region.reads}
    return JobSpec(tuple(s for s in sources if s.uid in used), tuple(regions))
