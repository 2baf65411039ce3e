"""Where a checkpoint cuts a job of several regions, in each mode."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoints.metadata import CheckpointMetadata, InputSnapshot
from tests.spark.jobs import (
    Live,
    counted,
    counts,
    final_state,
    passed,
    running,
    source_rows,
    state_at,
    visible,
)
from tests.spark.taps import Latch, Tap, drained


class Fork:
    """Two sources meet in a count; one of them comes through a region that can be held still."""

    def __init__(self) -> None:
        self.a, self.b, self.mid = Tap(), Tap(), Latch()

    def job(self) -> hf.Job:
        job = hf.Job("job")
        job.source("a", self.a)
        job.source("b", self.b)
        job.region("left", reads="a")(passed)
        job.region("right", reads="b")(passed)
        job.region("mid", reads="right")(passed)
        job.region("count", reads=["left", "mid"], output_mode="update")(counted)
        job.sink("latch", "mid", hf.sinks.foreach_batch(self.mid))
        job.sink("out", "count", hf.sinks.foreach_batch(drained))
        return job

    def fill(self, live: Live) -> None:
        """The count has read all of ``left``; two segments of ``right`` are stuck at ``mid``."""
        live.settle()
        self.mid.hold()
        self.a.give(10)
        self.b.give(7, times=2)
        live.until(lambda: live.has_read("count", "left") == 1)
        live.until(lambda: live.committed("right") == 1 and self.mid.held is not None)


@pytest.fixture
def fork() -> Fork:
    return Fork()


def channel(metadata: CheckpointMetadata, region: str, uid: str) -> InputSnapshot:
    found = metadata.region(region)
    assert found is not None
    return next(i for i in found.inputs if i.uid == uid)


def test_aligned_holds_the_channel_whose_barrier_has_come_and_only_it(
    spark: Any, tmp_path: Path, fork: Fork
) -> None:
    with running(fork.job(), tmp_path, fork.mid, batch_bytes="1b") as live:
        fork.fill(live)
        asked = live.request()
        fork.a.give(10, times=2)
        live.until(lambda: live.committed("left") == 2)
        mid = live.has_read("count", "mid")
        fork.mid.let(1)
        live.until(lambda: live.has_read("count", "mid") == mid + 1)
        assert live.has_read("count", "left") == 1
        assert live.running.gates.readable("count", "left") == 1
        assert not asked.done()
        fork.mid.let()
        taken = live.completed(asked)
        live.until(lambda: live.has_read("count", "left") == 3)

        assert channel(taken, "count", "left").position == 1
        assert channel(taken, "count", "mid").position == mid + 2
        assert not taken.in_flight
        assert not taken.unaligned
        a, b = source_rows(taken, "left"), source_rows(taken, "right")
        assert (len(a), len(b)) == (10, 14)
        assert state_at(spark, live.path(taken), "count", tmp_path / "at") == counts(a, b)
        figures = live.figures(taken.id).acknowledged["count"]
        assert figures.alignment > 0
        assert taken.region("count").statistics["alignment"] == figures.alignment  # type: ignore[union-attr]


def test_at_least_once_holds_nothing_and_counts_what_was_read_behind_the_barrier_twice(
    spark: Any, tmp_path: Path, fork: Fork
) -> None:
    with running(fork.job(), tmp_path, fork.mid, mode="at-least-once") as live:
        fork.fill(live)
        asked = live.request()
        fork.a.give(10, times=2)
        live.until(lambda: live.has_read("count", "left") == 3)
        assert not asked.done()
        fork.mid.let()
        taken = live.completed(asked)
        left = channel(taken, "count", "left")
        assert (left.position, left.barrier) == (3, 1)
        assert len(source_rows(taken, "left")) == 10
        path = live.path(taken)
    with running(fork.job(), tmp_path, mode="at-least-once", restore=path) as live:
        fork.b.give(5)
        live.settle()
        twice = range(10, 30)
        assert final_state(spark, live) == counts(range(30), range(19), twice)


def test_unaligned_completes_past_a_blocked_reader_and_restores_exactly_once(
    spark: Any, tmp_path: Path, fork: Fork
) -> None:
    with running(fork.job(), tmp_path, fork.mid, unaligned="true", batch_bytes="1b") as live:
        fork.fill(live)
        fork.b.give(3, times=6)
        live.until(lambda: live.committed("right") == 7)
        taken = live.checkpoint()
        assert fork.mid.held is not None
        assert taken.unaligned
        assert {(s.channel, s.segment) for s in taken.in_flight} == {("right", n) for n in range(8)}
        assert live.figures(taken.id).acknowledged["mid"].in_flight > 0
        path = live.path(taken)
        fork.mid.let()
        fork.a.give(4)
        live.settle()
        assert final_state(spark, live) == counts(range(14), range(32))
    with running(fork.job(), tmp_path, unaligned="true", restore=path) as live:
        fork.b.give(5)
        live.settle()
        assert final_state(spark, live) == counts(range(14), range(37))


def test_a_checkpoint_that_cannot_align_in_time_turns_unaligned(
    spark: Any, tmp_path: Path, fork: Fork
) -> None:
    job = fork.job()
    job.region("quick", reads="left")(passed)
    job.sink("quick-out", "quick", hf.sinks.foreach_batch(drained))
    options = {"unaligned": "true", "aligned_timeout": "800ms"}
    with running(job, tmp_path, fork.mid, **options) as live:
        fork.fill(live)
        live.until(lambda: live.has_read("quick", "left") == 1)
        taken = live.checkpoint()
        assert fork.mid.held is not None
        regions = live.figures(taken.id).acknowledged
        assert not regions["quick"].unaligned
        assert regions["mid"].unaligned
        assert taken.unaligned
        assert regions["mid"].acknowledged - taken.triggered >= 0.8


def test_regions_that_read_sources_answer_while_a_batch_runs_and_idle_ones_at_once(
    spark: Any, tmp_path: Path
) -> None:
    a, idle, latch = Tap(), Tap(), Latch()
    job = hf.Job("job")
    job.source("a", a)
    job.source("idle", idle)
    job.region("left", reads="a")(passed)
    job.region("quiet", reads="idle")(passed)
    job.region("count", reads=["left", "quiet"], output_mode="update")(counted)
    job.sink("latch", "left", hf.sinks.foreach_batch(latch))
    job.sink("out", "count", hf.sinks.foreach_batch(drained))
    with running(job, tmp_path, latch) as live:
        a.give(10)
        live.settle()
        latch.hold()
        a.give(10)
        live.until(lambda: latch.held == 1)
        taken = live.checkpoint()
        assert latch.held == 1
        cuts = {region.uid: region.cut for region in taken.regions}
        assert (cuts["left"], cuts["quiet"]) == (0, -1)
        assert state_at(spark, live.path(taken), "count", tmp_path / "at") == counts(range(10))
        path = live.path(taken)
    with running(job, tmp_path, restore=path) as live:
        idle.give(3)
        live.settle()
        assert final_state(spark, live) == counts(range(20), range(3))


class Web:
    """Fan-out, a join of two channels, a source beside a channel, a channel used twice."""

    def __init__(self) -> None:
        self.taps = {uid: Tap() for uid in "abc"}
        self.latch = Latch()

    def job(self, out: Path) -> hf.Job:
        job = hf.Job("job")
        for uid, tap in self.taps.items():
            job.source(uid, tap)
        job.region("left", reads="a")(passed)
        job.region("right", reads="b")(passed)
        job.region("joined", reads=["left", "right"])(lambda left, right: left.join(right, "n"))
        job.region("mixed", reads=["left", "c"])(passed)
        job.region("twice", reads="left")(lambda left: left.unionByName(left))
        job.sink("latch", "right", hf.sinks.foreach_batch(self.latch))
        for uid in ("joined", "mixed", "twice"):
            job.sink(f"{uid}-files", uid, hf.sinks.files(out / uid))
        return job

    @staticmethod
    def recount(reads: dict[str, range]) -> dict[str, Counter[int]]:
        a, b, c = (Counter(reads[uid]) for uid in "abc")
        return {"joined": a & b, "mixed": a + c, "twice": a + a}


def found(out: Path) -> dict[str, Counter[int]]:
    return {uid: visible(out / uid) for uid in ("joined", "mixed", "twice")}


def reads_at(taken: CheckpointMetadata) -> dict[str, range]:
    regions = {"a": "left", "b": "right", "c": "mixed"}
    return {source: source_rows(taken, region) for source, region in regions.items()}


def test_a_checkpoint_is_one_consistent_cut_of_every_kind_of_graph(
    spark: Any, tmp_path: Path
) -> None:
    web = Web()
    a, b, c = web.taps.values()
    out = tmp_path / "out"
    with running(web.job(out), tmp_path, web.latch, retained=9) as live:
        taken = []
        for held in (False, True, False):
            if held:  # one branch falls behind the others
                web.latch.hold()
            a.give(6, times=2)
            b.give(4, times=2)
            c.give(3)
            want = live.committed("left") + 1
            live.until(lambda want=want: live.committed("left") >= want)  # type: ignore[misc]
            taken.append(live.checkpoint())
            assert found(out) == web.recount(reads_at(taken[-1]))
            web.latch.let()
        assert len(reads_at(taken[0])["a"]) < len(reads_at(taken[2])["a"])
        path, before = live.path(taken[1]), reads_at(taken[1])
    again = tmp_path / "again"
    with running(web.job(again), tmp_path, restore=path) as live:
        for tap in web.taps.values():
            tap.end(2)
        assert live.until_over() == "FINISHED"
    everything = web.recount({uid: range(tap.given) for uid, tap in web.taps.items()})
    rest = {uid: rows - web.recount(before)[uid] for uid, rows in everything.items()}
    assert found(again) == rest
