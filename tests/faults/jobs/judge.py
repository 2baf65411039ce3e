"""The recount: what every region must have seen and put out, from the generators' numbers alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from holdfast.checkpoints.metadata import CheckpointMetadata
from tests.faults.jobs.specs import KEYS, JobSpec, RegionSpec, keeps

Rows = Counter[tuple[str, int]]


class Recount:
    """What the job's regions put out when each source region has read so many rows."""

    def __init__(self, spec: JobSpec, reads: dict[tuple[str, str], int]) -> None:
        """``reads``: of each (region, source), how many rows it has read."""
        self._spec = spec
        self.reads = reads
        self._regions = {region.uid: region for region in spec.regions}

    def inputs(self, region: RegionSpec) -> list[Rows]:
        return [
            self.output(self._regions[uid])
            if uid in self._regions
            else Counter({(uid, n): 1 for n in range(self.reads.get((region.uid, uid), 0))})
            for uid in region.reads
        ]

    def output(self, region: RegionSpec) -> Rows:
        inputs = self.inputs(region)
        if region.kind == "join":
            right = Counter(n for _, n in inputs[1].elements())
            return Counter(
                {
                    (s, n): times * right[n]
                    for (s, n), times in inputs[0].items()
                    if keeps(region, n) and right[n]
                }
            )
        both: Rows = sum(inputs, Counter())  # a row may come by two ways, and then counts twice
        return Counter({row: times for row, times in both.items() if keeps(region, row[1])})

    def counts(self, region: RegionSpec) -> dict[int, int]:
        found: Counter[int] = Counter()
        for (_, n), times in self.output(region).items():
            found[n % KEYS] += times
        return dict(found)


def everything(spec: JobSpec) -> Recount:
    rows = {source.uid: source.rows for source in spec.sources}
    return Recount(
        spec, {(r.uid, uid): rows[uid] for r in spec.regions for uid in r.reads if uid in rows}
    )


def at_checkpoint(spec: JobSpec, metadata: CheckpointMetadata) -> Recount:
    """What the checkpoint itself says its sources have read."""
    reads = {}
    for region in metadata.regions:
        for found in region.inputs:
            if found.kind == "source" and found.offset is not None:
                reads[region.uid, found.uid] = int(json.loads(found.offset)["row"])
    return Recount(spec, reads)


def visible(out: Path, region: RegionSpec) -> list[dict[str, Any]]:
    folder = out / "sinks" / region.uid
    return [row for f in sorted(folder.glob("*.parquet")) for row in pq.read_table(f).to_pylist()]


def visible_rows(out: Path, region: RegionSpec) -> Rows:
    return Counter((row["s"], row["n"]) for row in visible(out, region))


def visible_counts(out: Path, region: RegionSpec) -> dict[int, int]:
    """Counts only grow, so the newest of each key is its largest."""
    newest: dict[int, int] = {}
    for row in visible(out, region):
        newest[row["key"]] = max(newest.get(row["key"], 0), row["count"])
    return newest


def check_output(spec: JobSpec, out: Path, recount: Recount) -> None:
    """Everything that is visible is exactly what the recount says."""
    for region in spec.with_sink:
        if region.kind == "count":
            assert visible_counts(out, region) == recount.counts(region), region
        else:
            found, expected = visible_rows(out, region), recount.output(region)
            assert found == expected, (
                f"region {region.uid}: {len(expected - found)} rows lost, "
                f"{len(found - expected)} too many"
            )


def check_between(spec: JobSpec, out: Path, low: Recount, high: Recount) -> None:
    """After a crash: at least the checkpoint before the last, at most the last, nothing twice."""
    for region in spec.with_sink:
        if region.kind == "count":
            counts, most = visible_counts(out, region), high.counts(region)
            assert all(count <= most.get(key, 0) for key, count in counts.items()), region
        else:
            found = visible_rows(out, region)
            assert found <= high.output(region), region
            assert low.output(region) <= found, region
