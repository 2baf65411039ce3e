"""That the soak sees what a job must not leave behind, and draws its damage from the seed."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from holdfast.checkpoints.metadata import CheckpointMetadata, RegionSnapshot, StoredFile
from tests.faults.jobs.leftovers import of_no_checkpoint, segments, stale_work
from tests.soak.faults import KEPT, WORKING, Damage


def put(path: Path, data: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def checkpoint(number: int, file: StoredFile) -> CheckpointMetadata:
    region = RegionSnapshot("left", 1, "append", (), {}, files=(file,))
    return CheckpointMetadata(
        job_id="j",
        job_name="job",
        id=number,
        kind="checkpoint",
        mode="exactly-once",
        unaligned=False,
        full=False,
        triggered=0.0,
        completed=0.0,
        attempt=1,
        holdfast="",
        spark="",
        regions=(region,),
    )


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """With a segment that is still to be read, and the promise of the newest checkpoint."""
    newest = tmp_path / "work/job/attempt-12"
    put(newest / "channels/left/log/7", json.dumps({"folder": "7-ab", "files": []}).encode())
    put(newest / "channels/left/segments/7-ab/part-0.parquet")
    put(newest / "promised/9")
    put(newest / "promised/9.stored")
    put(newest / "promised/10")  # its checkpoint was being stored
    return newest


def test_what_the_next_start_needs_is_not_stale(tmp_path: Path, attempt: Path) -> None:
    assert stale_work(tmp_path / "work") == []
    assert segments(tmp_path / "work") == [attempt / "channels/left/log/7"]


def test_an_older_attempt_is_stale_even_if_its_number_is_shorter(
    tmp_path: Path, attempt: Path
) -> None:
    old = put(attempt.parent / "attempt-9/attempt").parent
    assert stale_work(tmp_path / "work") == [old]


@pytest.mark.parametrize("name", ["7-cd", "3-ab"])
def test_a_segment_that_no_log_names_is_stale(tmp_path: Path, attempt: Path, name: str) -> None:
    folder = put(attempt / f"channels/left/segments/{name}/part-0.parquet").parent
    assert stale_work(tmp_path / "work") == [folder]


def test_a_segment_of_the_same_name_in_another_channel_is_stale(
    tmp_path: Path, attempt: Path
) -> None:
    folder = put(attempt / "channels/right/segments/7-ab/part-0.parquet").parent
    assert stale_work(tmp_path / "work") == [folder]


@pytest.mark.parametrize("path", ["pins/4/left/state", "promised/8", "promised/8.stored"])
def test_pinned_files_and_settled_promises_are_stale(
    tmp_path: Path, attempt: Path, path: str
) -> None:
    stray = put(attempt / path)
    assert stale_work(tmp_path / "work") == [stray]


@pytest.mark.parametrize("stray", ["shared/left/b", "chk-3/x", ".chk-6.0-1-2.tmp/_metadata"])
def test_a_file_of_no_checkpoint_is_found_wherever_it_is(tmp_path: Path, stray: str) -> None:
    shared = StoredFile("state/0", 1, "00000000", place="shared/left/a")
    taken = checkpoint(4, shared)
    for path in ["chk-4/_metadata", "shared/left/a"]:
        put(tmp_path / taken.job_id / path)
    assert of_no_checkpoint(tmp_path, [taken]) == set()
    put(tmp_path / taken.job_id / stray)
    assert of_no_checkpoint(tmp_path, [taken]) == {f"{taken.job_id}/{stray}"}


def test_a_seed_tells_the_kind_of_file_and_the_damage() -> None:
    def draw(seed: int) -> list[Damage]:
        dice = Random(seed)
        return [Damage.drawn(dice, kinds, 0.4) for kinds in (WORKING, KEPT) for _ in range(60)]

    assert draw(3) == draw(3)
    assert {damage.kinds[0][0] for damage in draw(3)} == {*WORKING, *KEPT}
