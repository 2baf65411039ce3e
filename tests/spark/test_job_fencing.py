"""Two runners of one job: the older one stops before it can publish or commit anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import HoldfastError
from holdfast.protocol.ladder import Source
from holdfast.runtime.fencing import Fenced, raise_epoch
from tests.spark.jobs import (
    chain,
    counts,
    final_state,
    one_region,
    passed,
    prepared,
    running,
    visible,
)
from tests.spark.taps import Latch, Tap


def job_of(tap: Tap, out: Path) -> hf.Job:
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    job.sink("files", "left", hf.sinks.files(out))
    return job


def test_a_runner_that_was_replaced_publishes_no_segment_and_stops(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch = Tap(), Latch()
    with running(chain(tap, latch), tmp_path, latch) as live:
        tap.give(10)
        live.settle()
        raise_epoch(live.running.work.storage)
        tap.give(10)
        live.running.wait(90)
        assert live.state == "FAILED"
        assert "another runner has taken over" in str(live.running.failure)
        published = live.running.channels["left"].storage.list("log")
        assert [info.path for info in published if info.path == "log/1"] == []
    with running(chain(tap, latch), tmp_path, latch) as live:
        live.settle()
        assert final_state(spark, live) == counts(range(20))


def test_a_runner_that_was_replaced_neither_stores_a_checkpoint_nor_commits(
    spark: Any, tmp_path: Path
) -> None:
    tap, out = Tap(), tmp_path / "out"
    with running(job_of(tap, out), tmp_path) as live:
        tap.give(10)
        live.settle()
        raise_epoch(live.running.work.storage)
        future = live.running.checkpoint()
        assert isinstance(future.exception(90), HoldfastError)
        live.running.wait(90)
        assert isinstance(live.running.failure, Fenced)
        assert live.running.store.completed == {}
        assert not visible(out)


def test_a_runner_that_was_replaced_gives_a_plain_sink_no_row(spark: Any, tmp_path: Path) -> None:
    tap, got = Tap(), list[int]()
    sink = hf.sinks.foreach_batch(lambda rows, _: got.append(rows.count()))
    with running(one_region(tap, sink), tmp_path) as live:
        tap.give(10)
        live.settle()
        before = list(got)
        raise_epoch(live.running.work.storage)
        tap.give(10)
        live.running.wait(90)
        assert "another runner has taken over" in str(live.running.failure)
        assert got == before


def test_a_runner_that_was_replaced_deletes_nothing_when_it_is_about_to_restart(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    with running(job_of(tap, tmp_path / "out"), tmp_path) as live:
        tap.give(10)
        live.settle()
        live.checkpoint()
        live.running.halt_all()
        raise_epoch(live.running.work.storage)
        unfinished = live.checkpoints / "chk-99" / "part"
        unfinished.parent.mkdir()
        unfinished.write_text("of the successor")
        for restart in (
            lambda: live.running.revive(["left"]),
            lambda: live.running.revive_all(Source.CHECKPOINT),
        ):
            with pytest.raises(Fenced):
                restart()
        assert unfinished.exists()
        current = live.running.work.current()
        assert current is not None
        assert current.number == live.running.attempt.number


def test_a_runner_that_was_replaced_and_is_cancelled_ends_nothing_but_itself(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    with running(job_of(tap, tmp_path / "out"), tmp_path) as live:
        tap.give(10)
        live.settle()
        live.checkpoint()
        raise_epoch(live.running.work.storage)
        live.running.cancel()
        live.running.wait(90)
        assert live.state == "FAILED"
        assert isinstance(live.running.failure, Fenced)
        assert live.running.store.completed
        current = live.running.work.current()
        assert current is not None
        assert current.ended is None


def test_the_newer_of_two_live_runners_goes_on_and_every_row_is_there_once(
    spark: Any, tmp_path: Path
) -> None:
    tap, out = Tap(), tmp_path / "out"
    with running(job_of(tap, out), tmp_path) as older:
        tap.give(10, times=2)
        older.settle()
        older.checkpoint()
        tap.give(10)
        older.settle()
        # The process that takes over has its own Python and Spark; here they share one.
        newer = prepared(job_of(tap, out), tmp_path, {})
        older.running.wait(90)
        assert isinstance(older.running.failure, Fenced)
        newer.start()
        try:
            tap.give(10)
            newer.checkpoint().result(90)
        finally:
            newer.suspend()
    assert visible(out) == dict.fromkeys(range(len(visible(out))), 1)
    assert len(visible(out)) >= 30
