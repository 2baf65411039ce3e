"""Random jobs, killed at random moments, judged by a recount at every checkpoint they completed.

A seed gives the graph, the speeds, the modes, the times of the kills and how the job comes back
(plainly, or from the newest checkpoint). ``JOB_SEEDS=7,8 pytest …`` replays some,
``JOB_SEEDS=1-40`` is a long run.

At least once is not among the modes: how often a row counts then depends on which segments a
reader had taken behind its barrier, and no checkpoint keeps those. It is judged by
``tests/spark/test_job_modes.py``, with readers that are held at a known segment.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.checkpoints.metadata import CheckpointMetadata, RegionSnapshot
from holdfast.checkpoints.restoring import restore_region, verify
from holdfast.protocol.failures import Reason
from holdfast.querylog import read_state
from holdfast.storage import Storage, create_tree, open_storage
from tests.faults.jobs.judge import (
    Recount,
    at_cut,
    check_between,
    check_every_epoch,
    check_output,
    everything,
)
from tests.faults.jobs.plans import DEFAULT_SEEDS, MODES, Death, Plan, plan_of, seeds_of
from tests.faults.jobs.process import JobProcess
from tests.faults.jobs.specs import RegionSpec, hurried

SEEDS = seeds_of(os.environ.get("JOB_SEEDS", DEFAULT_SEEDS))
LAST_BATCHES = 1_000
"""Rows in a batch of the last life, which reads the rest as fast as it can: readers fall behind."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_job_that_is_killed_counts_every_row_once(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    plan = plan_of(seed)
    print(f"seed {seed} covers {sorted(plan.covers())}: {plan}")
    process = live(plan, tmp_path / "job")
    check_output(plan.spec, process.out, everything(plan.spec))
    check_none_failed(process.out)
    completed = process.checkpoints()
    files = files_of(process, completed[-1])
    recounts = {metadata.id: at_cut(plan.spec, metadata, files) for metadata in completed}
    check_every_epoch(plan.spec, process.out, recounts)
    for metadata in completed:
        verify(metadata, files)
    for region in plan.spec.regions:
        if region.kind == "count":
            check_states(spark, region, completed, recounts, files, tmp_path)
    in_flight = sum(any(r.in_flight.values()) for r in recounts.values())
    print(f"seed {seed}: {len(completed)} checkpoints recounted, {in_flight} with rows in flight")


def live(plan: Plan, out: Path) -> JobProcess:
    """All lives of the job; the last one reads the rest."""
    process = JobProcess(plan.spec, out)
    restore = None
    for death, mode in zip(plan.deaths, plan.modes, strict=False):
        process.start(restore=restore, settings=MODES[mode])
        die(process, death)
        check_visible(process)
        restore = newest(process) if death.comes_back == "restored" else None
    last = JobProcess(hurried(plan.spec, LAST_BATCHES), out)
    last.start(restore=restore, settings=MODES[plan.modes[-1]])
    last.finish()
    return last


def die(process: JobProcess, death: Death) -> None:
    """Complete some checkpoints, go on for a moment more, be killed."""
    wanted = len(cuts(process)) + death.checkpoints
    process.wait_until(lambda: len(cuts(process)) >= wanted)
    until = time.monotonic() + death.seconds
    process.wait_until(lambda: time.monotonic() >= until)
    assert process.running, f"it ended before it was killed:\n{process.words()}"
    if death.victim == "machine":
        process.kill_group()
    else:
        process.kill()


def cuts(process: JobProcess) -> set[tuple[int, ...]]:
    """Where completed checkpoints have cut the regions, those aside that came before any row."""
    found = {tuple(region.cut for region in m.regions) for m in process.checkpoints()}
    return {cut for cut in found if max(cut) >= 0}


def check_none_failed(out: Path) -> None:
    """The job tolerates failed checkpoints, so that it lives on; but none has a reason to fail."""
    counted = {reason.name for reason in Reason if reason.counted}
    found = [json.loads(path.read_bytes()) for path in out.glob("history/*/*.json")]
    assert found
    failed = [each for each in found if each["reason"] in counted]
    assert not failed, failed


def newest(process: JobProcess) -> str:
    return process.path_of(process.checkpoints()[-1])


def files_of(process: JobProcess, metadata: CheckpointMetadata) -> Storage:
    return open_storage(process.path_of(metadata).rpartition("/")[0])


def check_visible(process: JobProcess) -> None:
    """What a kill leaves is covered by the newest checkpoint, and covers the one before."""
    nothing = Recount(process.spec, {})
    files = files_of(process, process.checkpoints()[-1])
    known = [at_cut(process.spec, metadata, files) for metadata in process.checkpoints()[-2:]]
    low, high = [nothing, *known][-2:]
    check_between(process.spec, process.out, low, high)


def check_states(
    spark: SparkSession,
    region: RegionSpec,
    completed: list[CheckpointMetadata],
    recounts: dict[int, Recount],
    files: Storage,
    tmp_path: Path,
) -> None:
    """At each checkpoint the state is what a recount up to its cut gives, without rows in flight.

    Checkpoints that lie behind the same batch have the same files, which are read once.
    """
    read: dict[tuple[int, tuple[str, ...]], dict[int, int]] = {}
    for metadata in completed:
        snapshot = metadata.region(region.uid)
        assert snapshot is not None
        known = snapshot.cut, tuple(file.crc32c for file in snapshot.files)
        if known not in read:
            place = tmp_path / f"state-{metadata.id}-{region.uid}"
            read[known] = state_counts(spark, snapshot, files, place)
        assert read[known] == recounts[metadata.id].counts(region), (metadata.id, region)


def state_counts(
    spark: SparkSession, snapshot: RegionSnapshot, files: Storage, place: Path
) -> dict[int, int]:
    if snapshot.cut < 0:
        return {}
    tree = create_tree(place, seal="log/metadata")
    restore_region(tree, files, snapshot, "log", f"{place}/log")
    tree.publish()
    rows = read_state(spark.newSession(), f"{place}/log").collect()
    return {row["key"][0]: row["value"][0] for row in rows}
