"""Random jobs, killed at random moments, judged by a recount.

A seed gives the graph, the speeds, the modes, the times of the kills and how the job comes back
(plainly, or from the newest checkpoint). ``JOB_SEEDS=7,8 pytest …`` replays some.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.checkpoints.metadata import CheckpointMetadata
from holdfast.checkpoints.restoring import restore_region, verify
from holdfast.querylog import read_state
from holdfast.storage import create_tree, open_storage
from tests.faults.jobs.judge import at_checkpoint, check_output, everything
from tests.faults.jobs.process import JobProcess
from tests.faults.jobs.specs import JobSpec, RegionSpec, random_spec

SEEDS = [int(seed) for seed in os.environ.get("JOB_SEEDS", "33,36").split(",")]
_PREFIX = "execution.checkpointing"
MODES: list[dict[str, str]] = [
    {
        f"{_PREFIX}.unaligned.enabled": unaligned,
        f"{_PREFIX}.aligned-checkpoint-timeout": timeout,
        f"{_PREFIX}.max-concurrent-checkpoints": concurrent,
    }
    for unaligned, timeout, concurrent in [
        ("false", "0ms", "1"),
        ("false", "0ms", "3"),
        ("true", "0ms", "1"),
        ("true", "300ms", "1"),
    ]
]
"""A job may come back with another one than it was killed with."""
BACKENDS: list[dict[str, str]] = [
    {"state.backend.type": "hashmap"},
    {"state.backend.type": "hashmap", "execution.checkpointing.incremental": "true"},
    {"state.backend.type": "rocksdb"},
    {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
]
KILLS = 2


def spec_of(seed: int, dice: random.Random) -> JobSpec:
    interval = {"execution.checkpointing.interval": dice.choice(["200ms", "600ms", "1s"])}
    settings = {**dice.choice(BACKENDS), **interval}
    return replace(random_spec(seed), settings=settings)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_job_that_is_killed_counts_every_row_once(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    dice = random.Random(seed)
    spec = spec_of(seed, dice)
    print(f"seed {seed}: {spec}")
    process = JobProcess(spec, tmp_path / "job")
    restore = None
    for _ in range(KILLS):
        process.start(restore=restore, settings=dice.choice(MODES))
        if not kill_somewhere(process, dice):
            break
        restore = from_newest(process) if dice.random() < 0.5 else None
    if process.running:
        process.kill()
    if not process.ended_well:
        process.start(restore=restore, settings=dice.choice(MODES))
        process.finish()
    check_output(spec, process.out, everything(spec))
    for metadata in process.checkpoints():
        check_checkpoint(spark, spec, process, metadata, tmp_path)


def kill_somewhere(process: JobProcess, dice: random.Random) -> bool:
    """Let it complete some checkpoints, wait a random moment more, kill; False if it ended."""
    before = len(process.checkpoints())
    wanted = before + dice.randint(1, 3)
    process.wait_until(lambda: len(process.checkpoints()) >= wanted)
    until = time.monotonic() + dice.random()
    process.wait_until(lambda: time.monotonic() >= until)
    if not process.running:
        return False
    dice.choice([process.kill, process.kill_group])()
    return True


def from_newest(process: JobProcess) -> str | None:
    completed = process.checkpoints()
    return process.path_of(completed[-1]) if completed else None


def check_checkpoint(
    spark: SparkSession,
    spec: JobSpec,
    process: JobProcess,
    metadata: CheckpointMetadata,
    tmp_path: Path,
) -> None:
    """Every file is there, and the state is what a recount up to the recorded offsets gives."""
    files = open_storage(process.path_of(metadata).rpartition("/")[0])
    verify(metadata, files)
    if metadata.in_flight:
        return  # part of the rows is still on its way; the output has been judged
    recount = at_checkpoint(spec, metadata)
    for region in spec.regions:
        if region.kind == "count":
            place = tmp_path / f"state-{metadata.id}-{region.uid}"
            found = state_counts(spark, metadata, region, files, place)
            assert found == recount.counts(region), (metadata.id, region)


def state_counts(
    spark: SparkSession,
    metadata: CheckpointMetadata,
    region: RegionSpec,
    files: object,
    place: Path,
) -> dict[int, int]:
    snapshot = metadata.region(region.uid)
    assert snapshot is not None
    if snapshot.cut < 0:
        return {}
    tree = create_tree(place, seal="log/metadata")
    restore_region(tree, files, snapshot, "log", f"{place}/log")  # type: ignore[arg-type]
    tree.publish()
    rows = read_state(spark.newSession(), f"{place}/log").collect()
    return {row["key"][0]: row["value"][0] for row in rows}
