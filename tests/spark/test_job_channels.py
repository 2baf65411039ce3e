"""Channels of running jobs: backpressure, which segments stay on disk, batches that run again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.spark.jobs import Live, chain, counts, final_state, passed, running, state_at, visible
from tests.spark.taps import Latch, Tap, drained, until
from tests.spark.test_job_storage import copying_held_up


def on_disk(live: Live, channel: str) -> list[int]:
    """The segments whose files are there."""
    # A storage's own listing: unlike ``glob`` it bears with folders that vanish meanwhile.
    listed = live.running.attempt.storage.list(f"channels/{channel}/segments")
    folders = {info.path.split("/")[-2] for info in listed if info.path.endswith(".parquet")}
    return sorted({int(folder.partition("-")[0]) for folder in folders})


def begun(live: Live, region: str) -> int:
    """The newest batch that a query has begun."""
    log = Path(live.running.attempt.region(region)) / "offsets"
    return max((int(f.name) for f in log.glob("*") if f.name.isdigit()), default=-1)


def test_a_producer_waits_for_a_reader_that_is_behind_and_goes_on_when_it_has_caught_up(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch = Tap(), Latch()
    capacity = 3000
    with running(chain(tap, latch), tmp_path, latch, capacity=f"{capacity}b") as live:
        live.settle()
        latch.hold()
        tap.give(50, times=12)
        unread = live.running.gates.unread
        live.until(lambda: unread("left") > capacity)
        live.until(lambda: begun(live, "left") == live.committed("left") + 1)
        stuck = live.committed("left")
        assert stuck < 11
        largest = max(live.running.channels["left"].get(n).size for n in range(stuck + 1))
        assert unread("left") <= capacity + largest
        assert live.running.channels["left"].batches()[-1] == stuck
        latch.let()
        live.settle()
        assert live.running.regions["left"].figures.backpressured > 0
        assert final_state(spark, live) == counts(range(600))


def test_segments_stay_until_readers_sinks_and_checkpoints_are_done_with_them(
    spark: Any, tmp_path: Path
) -> None:
    a, b, latch = Tap(), Tap(), Latch()
    out = tmp_path / "out"
    job = hf.Job("job")
    job.source("a", a)
    job.source("b", b)
    job.region("left", reads="a")(passed)
    job.region("right", reads="b")(passed)
    job.region("down", reads=["left", "right"])(passed)
    job.sink("files", "right", hf.sinks.files(out))
    job.sink("latch", "down", hf.sinks.foreach_batch(latch))
    with running(job, tmp_path, latch, unaligned="true") as live:
        a.give(5, times=2)
        b.give(5, times=2)
        live.settle()
        live.until(lambda: on_disk(live, "left") == [])
        assert on_disk(live, "right") == [0, 1]
        live.checkpoint()
        live.until(lambda: on_disk(live, "right") == [])

        latch.hold()
        a.give(5, times=3)
        live.until(lambda: live.committed("left") == 4 and latch.held is not None)
        with copying_held_up(live):
            asked = live.request()
            latch.let()
            live.until(lambda: live.has_read("down", "left") == 5)
            a.give(5)
            live.until(
                lambda: live.has_read("down", "left") == 6 and 5 not in on_disk(live, "left")
            )
            assert on_disk(live, "left") == [2, 3, 4]
        taken = live.completed(asked)
        assert [s.segment for s in taken.in_flight] == [2, 3, 4]
        a.give(5)
        live.until(lambda: live.has_read("down", "left") == 7 and on_disk(live, "left") == [])

        assert not (tmp_path / "work/job/attempt-1/channels/down").exists()


def test_a_batch_that_runs_again_after_a_crash_publishes_its_segment_once(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch = Tap(), Latch()
    out = tmp_path / "out"

    def job(latch: Latch) -> hf.Job:
        made = chain(tap, latch)
        made.sink("files", "left", hf.sinks.files(out))
        return made

    with running(job(latch), tmp_path, latch) as live:
        latch.hold()
        tap.give(5, times=3)
        live.until(lambda: live.committed("left") == 2 and latch.held == 0)
        latch.fail()
        until(lambda: live.running.state.is_over)
        assert live.state == "FAILED"
        assert "the latch was told to fail" in str(live.running.failure)
        attempt = Path(live.running.attempt.storage.locate("x")).parent
    # As if the process had died between the channel's entry and Spark's.
    (attempt / "regions/left/commits/2").unlink()
    (attempt / "regions/left/commits/.2.crc").unlink(missing_ok=True)
    assert (attempt / "channels/left/log/2").exists()
    before = on_disk(live, "left")
    with running(job(Latch()), tmp_path) as live:
        assert before == [0, 1, 2]
        live.settle()
        taken = live.checkpoint()
        assert state_at(spark, live.path(taken), "count", tmp_path / "at") == counts(range(15))
        assert sorted(visible(out).elements()) == list(range(15))


def test_an_idle_job_runs_no_batches_and_writes_no_files(spark: Any, tmp_path: Path) -> None:
    tap, latch = Tap(), Latch()
    job = chain(tap, latch)
    job.region("plain", reads="left")(passed)
    job.sink("plain-out", "plain", hf.sinks.foreach_batch(drained))
    with running(job, tmp_path) as live:
        tap.give(5)
        live.settle()
        live.until(lambda: on_disk(live, "left") == [])
        asked = tap.questions
        live.until(lambda: tap.questions >= asked + 3)
        files, batches = listing(tmp_path), {u: live.committed(u) for u in live.running.regions}
        asked = tap.questions
        live.until(lambda: tap.questions >= asked + 6)
        assert listing(tmp_path) == files
        assert {u: live.committed(u) for u in live.running.regions} == batches
        assert batches["left"] == 0


def test_a_batch_of_many_tasks_leaves_cores_to_the_other_regions(
    spark: Any, tmp_path: Path
) -> None:
    wide, quick, at_work = Tap(), Tap(), threading.Event()
    nap = "java_method('java.lang.Thread', 'sleep', 50L + n * 0)"

    def many_tasks(rows: Any, _: int) -> None:
        at_work.set()
        rows.repartition(1000, "n").selectExpr(f"{nap} AS nothing").collect()

    job = hf.Job("job")
    job.source("a", wide)
    job.source("b", quick)
    job.region("wide", reads="a")(passed)
    job.region("quick", reads="b")(passed)
    job.sink("many", "wide", hf.sinks.foreach_batch(many_tasks))
    job.sink("few", "quick", hf.sinks.foreach_batch(drained))
    with running(job, tmp_path) as live:
        wide.give(2000)
        live.until(at_work.is_set)
        quick.give(5, times=3)
        live.until(lambda: live.committed("quick") == 2)
        assert live.committed("wide") == -1


def listing(folder: Path) -> set[str]:
    """Every file, but for what Spark's maintenance makes of deltas that are there already."""
    found = (str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())
    return {path for path in found if ".snapshot" not in path}
