"""What a checkpoint keeps, where, and how much of it has to be written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoints.restoring import verify
from holdfast.checkpoints.store import read_checkpoint, shared_files
from holdfast.storage import open_storage
from tests.spark.jobs import (
    Live,
    counted,
    counts,
    document,
    final_state,
    one_region,
    passed,
    running,
    state_at,
)
from tests.spark.taps import PATIENCE, Latch, Tap, drained

BACKENDS = ["hashmap", "rocksdb"]


@pytest.mark.parametrize("incremental", ["true", "false"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_restores_exactly_with_every_backend(
    spark: Any, tmp_path: Path, backend: str, incremental: str
) -> None:
    tap = Tap()
    options = {"backend": backend, "incremental": incremental, "inline": "0b"}
    with running(one_region(tap), tmp_path, **options) as live:
        tap.give(13)
        live.until(lambda: live.committed("count") == 0)
        taken = live.checkpoint()
        tap.give(9)
        live.until(lambda: live.committed("count") == 1)
        path = live.path(taken)
    kept = taken.region("count")
    assert kept is not None
    assert kept.backend == backend
    assert any(file.shared for file in kept.files) == (incremental == "true")
    assert taken.full == (incremental == "false")
    assert state_at(spark, path, "count", tmp_path / "at") == counts(range(13))
    assert types_in(path) == {"key": ["key"], "value": ["count"]}
    with running(one_region(tap), tmp_path, restore=path, **options) as live:
        tap.give(4)
        live.until(lambda: live.rows_read("count") == 13)
        assert final_state(spark, live) == counts(range(26))


def types_in(path: str) -> dict[str, list[str]]:
    """Names of the columns of the state, from ``_metadata`` as plain JSON."""
    (region,) = document(path)["regions"]
    (operator,) = region["operators"]
    assert operator["name"] == "stateStoreSave"
    (family,) = operator["stores"]["default"]
    columns = {side: family[side]["fields"] for side in ("key", "value")}
    assert all(field["type"] == "long" for fields in columns.values() for field in fields)
    return {side: [field["name"] for field in fields] for side, fields in columns.items()}


def wide(tap: Tap) -> hf.Job:
    """Every row is a key of its own."""
    job = hf.Job("job")
    job.source("a", tap)
    job.region("seen", reads="a")(lambda rows: rows.dropDuplicates(["n"]))
    job.sink("out", "seen", hf.sinks.foreach_batch(drained))
    return job


FEW_SNAPSHOTS = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "6"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_incremental_checkpoints_write_what_changed_share_the_rest_and_leave_nothing_behind(
    spark: Any, tmp_path: Path, backend: str
) -> None:
    tap = Tap()
    options = {
        "backend": backend,
        "incremental": "true",
        "inline": "0b",
        "retained": 2,
        **(FEW_SNAPSHOTS if backend == "hashmap" else {}),
    }
    with running(wide(tap), tmp_path, **options) as live:
        tap.give(20_000)
        live.until(lambda: live.committed("seen") == 0)
        first = live.checkpoint()
        tap.give(10)
        live.until(lambda: live.committed("seen") == 1)
        second = live.checkpoint()
        all_of_it = live.figures(first.id).checkpointed_size
        changes = live.figures(second.id).checkpointed_size
        assert changes < all_of_it / 4
        assert live.figures(second.id).state_size > all_of_it
        assert shared_files(first) & shared_files(second)

        for _ in range(8):
            tap.give(10)
            want = live.committed("seen") + 1
            live.until(lambda want=want: live.committed("seen") >= want)  # type: ignore[misc]
            live.checkpoint()
        whole = live.checkpoint(full=True)
        assert whole.full
        assert not shared_files(whole)
        assert live.figures(whole.id).checkpointed_size == whole.size
        configured = live.checkpoint()
        assert not configured.full
        assert_kept_and_nothing_else(live, [whole.id, configured.id])


def assert_kept_and_nothing_else(live: Live, numbers: list[int]) -> None:
    kept = live.running.store.completed
    assert list(kept) == numbers
    named = {file.place for metadata in kept.values() for file in metadata.files if file.place}
    named |= {f"chk-{number}/_metadata" for number in numbers}
    # What is older is deleted beside the job.
    live.until(lambda: {f.path for f in open_storage(live.checkpoints).list()} == named)
    for number in numbers:
        verify(*read_checkpoint(live.running.store.path_of(number)))


def test_storage_jobmanager_keeps_everything_inside_the_metadata_up_to_a_limit(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    job = hf.Job("job")
    job.source("a", tap)
    digests = "transform(sequence(1, 10000), i -> sha2(concat(n, ' ', i), 256))"
    job.region("blobs", reads="a")(
        lambda rows: rows.selectExpr(f"unhex(array_join({digests}, '')) AS blob").dropDuplicates()
    )
    job.sink("out", "blobs", hf.sinks.foreach_batch(drained))
    options = {"storage": "jobmanager", "tolerable": 9}
    with running(job, tmp_path, **options) as live:
        tap.give(2)
        live.until(lambda: live.committed("blobs") == 0)
        taken = live.checkpoint()
        assert taken.size > 600_000
        assert all(file.inline is not None for file in taken.files)
        files = [f.name for f in live.checkpoints.rglob("*") if f.is_file()]
        assert files == ["_metadata"]
        assert live.checkpoints.is_relative_to(tmp_path)
        verify(*read_checkpoint(live.path(taken)))

        tap.give(16)
        live.until(lambda: live.committed("blobs") == 1)
        asked = live.running.checkpoint()
        assert "storage 'jobmanager' keeps at most 5242880" in str(asked.exception(PATIENCE))
        tap.give(1)
        live.until(lambda: live.committed("blobs") == 2)
        assert live.state == "RUNNING"
        path = live.path(taken)
    with running(job, tmp_path, restore=path, **options) as live:
        live.until(lambda: live.committed("blobs") == 2)
        assert live.running.regions["blobs"].figures.state_rows == 19


def fan_out(tap: Tap, *latches: Latch) -> hf.Job:
    """A region that is read by several counts, each of which can be held still."""
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    for number, latch in enumerate(latches):
        job.region(f"count-{number}", reads="left", output_mode="update")(counted)
        job.sink(f"latch-{number}", f"count-{number}", hf.sinks.foreach_batch(latch))
    return job


def test_a_segment_that_two_readers_have_not_read_is_linked_once_and_restored_for_both(
    spark: Any, tmp_path: Path
) -> None:
    tap, one, other = Tap(), Latch(), Latch()
    job = fan_out(tap, one, other)
    options = {"unaligned": "true", "inline": "0b"}
    with running(job, tmp_path, one, other, **options) as live:
        live.settle()
        one.hold()
        other.hold()
        tap.give(20, times=3)
        live.until(lambda: live.committed("left") == 2)
        live.until(lambda: one.held is not None and other.held is not None)
        taken = live.checkpoint()
        assert {(s.channel, s.segment) for s in taken.in_flight} >= {("left", 1), ("left", 2)}
        for segment in taken.in_flight:
            at_work = live.running.channels["left"].paths(segment.segment, segment.segment + 1)
            kept = [live.checkpoints / (file.place or "") for file in segment.files]
            assert {p.stat().st_ino for p in kept} == {Path(p).stat().st_ino for p in at_work}
        figures = live.figures(taken.id).acknowledged
        for count in ("count-0", "count-1"):
            of_state = figures[count].state_size - figures[count].in_flight
            assert figures[count].in_flight > 0
            assert figures[count].checkpointed_size == of_state
        path = live.path(taken)
    with running(job, tmp_path, restore=path, **options) as live:
        one.mend()
        other.mend()
        tap.give(4)
        live.settle()
        for count in ("count-0", "count-1"):
            assert final_state(spark, live, count) == counts(range(64))


@contextmanager
def copying_held_up(live: Live) -> Iterator[None]:
    """Every thread that copies is busy with something else: a storage that takes its time."""
    go = threading.Event()
    for pool in live.running.life._snapshots._copying.values():
        pool.submit(go.wait)
    try:
        yield
    finally:
        go.set()


@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_go_on_while_a_checkpoint_is_copied_and_do_not_change_it(
    spark: Any, tmp_path: Path, backend: str
) -> None:
    tap = Tap()
    options = {"backend": backend, "inline": "0b", "spark.sql.streaming.minBatchesToRetain": "2"}
    with running(one_region(tap), tmp_path, **options) as live:
        tap.give(10)
        live.until(lambda: live.committed("count") == 0)
        needed = Path(live.running.attempt.region("count")) / "offsets/0"
        with copying_held_up(live):
            asked = live.request()
            for batch in range(1, 9):
                tap.give(3)
                live.until(lambda batch=batch: live.committed("count") == batch)  # type: ignore[misc]
            live.until(lambda: not needed.exists())  # Spark has cleaned up
            assert not asked.done()
        taken = live.completed(asked)
        assert state_at(spark, live.path(taken), "count", tmp_path / "at") == counts(range(10))
        pins = Path(live.running.attempt.storage.locate("pins"))
        live.until(lambda: not list(pins.glob("*")))
