"""The recount: what every region must have seen and put out, from the generators' numbers alone."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from holdfast.checkpoints.metadata import CheckpointMetadata
from holdfast.checkpoints.restoring import contents
from holdfast.sinks.files.manifest import read_manifest
from holdfast.storage import Storage, open_storage
from tests.faults.jobs.specs import KEYS, JobSpec, RegionSpec, keeps

Rows = Counter[tuple[str, int]]


class Recount:
    """What the job's regions put out when each source region has read so many rows."""

    def __init__(
        self,
        spec: JobSpec,
        reads: Mapping[tuple[str, str], int],
        in_flight: Mapping[tuple[str, str], Rows] | None = None,
    ) -> None:
        """``reads``: of each (region, source), how many rows it has read.

        ``in_flight``: of each (region, channel), rows that the one behind it has not read yet.
        """
        self._spec = spec
        self.reads = reads
        self.in_flight = in_flight or {}
        self._regions = {region.uid: region for region in spec.regions}
        self._output: dict[str, Rows] = {}

    def inputs(self, region: RegionSpec) -> list[Rows]:
        return [
            self._read_from_channel(region, uid)
            if uid in self._regions
            else Counter({(uid, n): 1 for n in range(self.reads.get((region.uid, uid), 0))})
            for uid in region.reads
        ]

    def _read_from_channel(self, region: RegionSpec, uid: str) -> Rows:
        made = self.output(self._regions[uid])
        on_their_way = self.in_flight.get((region.uid, uid), Counter())
        assert on_their_way <= made, f"in flight from {uid} to {region.uid}: rows nobody has made"
        return made - on_their_way

    def output(self, region: RegionSpec) -> Rows:
        if region.uid not in self._output:
            self._output[region.uid] = self._made_by(region)
        return self._output[region.uid]

    def _made_by(self, region: RegionSpec) -> Rows:
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
    """What the checkpoint itself says its sources have read; of jobs with aligned checkpoints."""
    assert not any(_unread(metadata).values()), "rows are on their way: see at_cut"
    return Recount(spec, _rows_read(metadata))


def at_cut(spec: JobSpec, metadata: CheckpointMetadata, files: Storage) -> Recount:
    """The same where rows may be on their way: those are taken from what the checkpoint keeps.

    The recount gives what each region has put out before the barrier; without the rows between
    its reader's position and the barrier, that is what the reader had seen at its cut.
    """
    kept = {(s.channel, s.segment): s.files for s in metadata.in_flight}
    on_their_way = {
        (reader, channel): _rows_in(
            contents(files, file) for number in segments for file in kept[channel, number]
        )
        for (reader, channel), segments in _unread(metadata).items()
    }
    return Recount(spec, _rows_read(metadata), on_their_way)


def _unread(metadata: CheckpointMetadata) -> dict[tuple[str, str], range]:
    """Of each (region, channel), the segments before the barrier that it had not read."""
    return {
        (region.uid, found.uid): range(found.position, found.barrier)
        for region in metadata.regions
        for found in region.inputs
        if found.position is not None and found.barrier is not None
    }


def _rows_read(metadata: CheckpointMetadata) -> dict[tuple[str, str], int]:
    reads = {}
    for region in metadata.regions:
        for found in region.inputs:
            if found.kind == "source" and found.offset is not None:
                reads[region.uid, found.uid] = int(json.loads(found.offset)["row"])
    return reads


def _rows_in(stored: Iterable[bytes]) -> Rows:
    tables = (pq.read_table(io.BytesIO(data)) for data in stored)
    return Counter((row["s"], row["n"]) for table in tables for row in table.to_pylist())


def visible(out: Path, region: RegionSpec) -> list[dict[str, Any]]:
    folder = out / "sinks" / region.uid
    return _read_all(sorted(folder.glob("*.parquet")))


def by_epoch(out: Path, region: RegionSpec) -> dict[int, list[dict[str, Any]]]:
    """What became visible with each checkpoint, as the sink's manifest says."""
    folder = out / "sinks" / region.uid
    epochs = read_manifest(open_storage(folder))
    return {e.checkpoint: _read_all(folder / name for name, _ in e.files) for e in epochs}


def _read_all(files: Iterable[Path]) -> list[dict[str, Any]]:
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def rows_of(found: Iterable[Mapping[str, Any]]) -> Rows:
    return Counter((row["s"], row["n"]) for row in found)


def newest_counts(found: Iterable[Mapping[str, Any]], where: object) -> dict[int, int]:
    """Each key's newest count, which is its largest, since counts only grow.

    For that reason none may come twice: a batch that was put out again would repeat its counts.
    """
    rows = [(row["key"], row["count"]) for row in found]
    twice = [row for row, times in Counter(rows).items() if times > 1]
    assert not twice, f"{where}: (key, count) more than once: {twice}"
    newest: dict[int, int] = {}
    for key, count in rows:
        newest[key] = max(newest.get(key, 0), count)
    return newest


def check_output(spec: JobSpec, out: Path, recount: Recount) -> None:
    """Everything that is visible is exactly what the recount says."""
    for region in spec.with_sink:
        check_exactly(region, visible(out, region), recount, region)


def check_exactly(
    region: RegionSpec, found: list[dict[str, Any]], recount: Recount, where: object
) -> None:
    """These rows of a region are all that the recount says, and no others."""
    if region.kind == "count":
        assert newest_counts(found, where) == recount.counts(region), where
        return
    rows, expected = rows_of(found), recount.output(region)
    assert rows == expected, (
        f"{where}: {len(expected - rows)} rows lost, {len(rows - expected)} too many"
    )


def check_every_epoch(spec: JobSpec, out: Path, recounts: Mapping[int, Recount]) -> None:
    """At each checkpoint exactly what was read before it had become visible; counts only grew."""
    for region in spec.with_sink:
        epochs = by_epoch(out, region)
        assert epochs.keys() <= recounts.keys(), f"{region}: an epoch without a checkpoint"
        seen: list[dict[str, Any]] = []
        for checkpoint, recount in sorted(recounts.items()):
            where = f"region {region.uid} at checkpoint {checkpoint}"
            fresh = epochs.get(checkpoint, [])
            if region.kind == "count":
                check_growth(newest_counts(seen, where), fresh, where)
            seen += fresh
            check_exactly(region, seen, recount, where)


def check_growth(before: Mapping[int, int], fresh: list[dict[str, Any]], where: str) -> None:
    """An epoch's counts are above those of all epochs before it."""
    back = [row for row in fresh if row["count"] <= before.get(row["key"], 0)]
    assert not back, f"{where}: counts that are not above {before}: {back}"


def check_between(spec: JobSpec, out: Path, low: Recount, high: Recount) -> None:
    """After a crash: at least the checkpoint before the last, at most the last, nothing twice."""
    for region in spec.with_sink:
        found = visible(out, region)
        if region.kind == "count":
            counts = newest_counts(found, region)
            least, most = low.counts(region), high.counts(region)
            assert all(count <= most.get(key, 0) for key, count in counts.items()), region
            assert all(counts.get(key, 0) >= count for key, count in least.items()), region
        else:
            rows = rows_of(found)
            assert rows <= high.output(region), region
            assert low.output(region) <= rows, region
