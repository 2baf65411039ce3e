"""When checkpoints are taken, when they are given up, and what the job's own functions hear."""

from __future__ import annotations

import time
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast import clock
from holdfast.checkpoints.restoring import verify
from holdfast.checkpoints.store import read_checkpoint
from holdfast.protocol.statistics import Status
from holdfast.runtime.coordinator import CheckpointFailed
from holdfast.runtime.history import History
from tests.spark.jobs import (
    Live,
    chain,
    counts,
    final_state,
    one_region,
    passed,
    running,
    state_at,
    tree_of,
    visible,
)
from tests.spark.taps import PATIENCE, Latch, Tap, until

EVERYTHING_IN_FILES = {"inline": "0b", "incremental": "true"}


def refusal(asked: Future[int]) -> CheckpointFailed:
    with pytest.raises(CheckpointFailed) as caught:
        asked.result(PATIENCE)
    return caught.value


def block(live: Live, tap: Tap, latch: Latch) -> None:
    """Hold the count in a batch, so that no barrier passes it."""
    live.settle()
    latch.hold()
    tap.give(5)
    live.until(lambda: latch.held is not None)


def completed(live: Live) -> list[Any]:
    return [f for f in live.running.history.all() if f.status is Status.COMPLETED]


def seconds_in_progress(live: Live) -> float:
    newest = live.running.history.all()[-1]
    age = time.time() - newest.triggered
    return age if newest.status is Status.IN_PROGRESS else 0.0


def test_periodic_checkpoints_keep_the_interval_and_pause_after_a_completion(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch = Tap(), Latch()
    options = {"interval": "300ms", "min_pause": "250ms"}
    with running(chain(tap, latch), tmp_path, latch, **options) as live:
        tap.give(5)
        live.until(lambda: len(completed(live)) >= 2)
        block(live, tap, latch)
        # Longer than the interval, so that only the pause can hold the next one back.
        live.until(lambda: seconds_in_progress(live) > 0.7)
        slow = live.running.history.all()[-1].id
        latch.let()
        live.until(lambda: completed(live)[-1].id > slow)
        taken = completed(live)
        assert {f.cause for f in taken} == {"PERIODIC"}
        for one, other in pairwise(taken):
            assert other.triggered - one.triggered >= 0.3
            assert other.triggered - one.ended >= 0.25


def behind_the_latch(live: Live) -> Any:
    """The checkpoint whose barrier the count cannot pass; others may be just completing."""

    def newest() -> Any:
        return live.running.history.all()[-1]

    def waits() -> bool:
        left = newest().acknowledged.get("left")
        return left is not None and left.cut == live.committed("left")

    live.until(lambda: newest().status is Status.IN_PROGRESS and waits())
    return newest()


def test_a_users_checkpoint_goes_before_periodic_ones_and_heeds_no_pause(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch = Tap(), Latch()
    with running(chain(tap, latch), tmp_path, latch, interval="10ms") as live:
        block(live, tap, latch)
        blocked = behind_the_latch(live)
        asked = live.running.checkpoint()
        live.until(lambda: live.running.coordinator._queue)
        latch.let()
        taken = live.completed(asked)
        assert blocked.cause == "PERIODIC"
        assert taken.id == blocked.id + 1
        assert live.figures(taken.id).cause == "USER"
    pausing = {"interval": "1h", "min_pause": "1h"}
    with running(chain(tap, latch), tmp_path, latch, **pausing) as live:
        first, second = live.checkpoint().id, live.checkpoint().id
        assert second == first + 1


def let_minutes_pass(live: Live, turned: pytest.MonkeyPatch) -> None:
    """Ten of them, at once. The coordinator sleeps by the real clock and must be woken."""
    turned.setattr(clock, "_STARTED", clock._STARTED + 600)
    live.running.coordinator._events.put(lambda: None)


def test_an_expired_checkpoint_leaves_nothing_and_too_many_in_a_row_fail_the_job(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap, latch = Tap(), Latch()
    job = hf.Job("job")
    job.source("a", tap)
    # Stateful, so that the region that can answer has copied files by the time of the failure.
    job.region("left", reads="a")(lambda rows: rows.dropDuplicates(["n"]))
    job.region("down", reads="left")(passed)
    job.sink("latch", "down", hf.sinks.foreach_batch(latch))
    options = {"timeout": "9min", "tolerable": 1, "retained": 5, **EVERYTHING_IN_FILES}
    with running(job, tmp_path, latch, **options) as live:
        tap.give(10)
        live.settle()
        live.checkpoint()
        block(live, tap, latch)
        before = tree_of(live.checkpoints)
        asked = live.request()
        live.until(lambda: live.running.history.all()[-1].acknowledged)
        assert not asked.done()
        let_minutes_pass(live, monkeypatch)
        assert "expired before completing" in refusal(asked).message
        figures = live.running.history.all()[-1]
        assert (figures.status, figures.reason) == (Status.FAILED, "EXPIRED")
        assert list(figures.acknowledged) == ["left"]
        until(lambda: tree_of(live.checkpoints) == before)
        assert live.state == "RUNNING"

        latch.let()
        live.settle()
        assert live.checkpoint().id == figures.id + 1

        block(live, tap, latch)
        asked = live.request()
        let_minutes_pass(live, monkeypatch)
        assert "tolerable" not in str(refusal(asked))
        assert live.state == "RUNNING"
        asked = live.request()
        let_minutes_pass(live, monkeypatch)
        refusal(asked)
        latch.let()
        until(lambda: live.running.state.is_over)
        assert live.state == "FAILED"
        failure = live.running.failure
        assert failure is not None
        assert "Exceeded checkpoint tolerable failure threshold" in failure.message
        assert "expired before completing" in failure.message


def test_two_checkpoints_in_flight_complete_in_order_and_hooks_hear_each_once(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch = Tap(), Latch()
    job = chain(tap, latch)
    asked_for: list[int] = []
    heard: list[int] = []
    refuse: set[int] = set()

    @job.on_snapshot
    def offsets(checkpoint: int) -> dict[str, int]:
        asked_for.append(checkpoint)
        if checkpoint in refuse:
            raise ValueError("not now")
        return {"seen": 100 + checkpoint}

    @job.on_complete
    def failing(checkpoint: int) -> None:
        raise ValueError("this cannot take a checkpoint back")

    job.on_complete(heard.append)
    with running(job, tmp_path, latch, concurrent=2, retained=9, tolerable=1) as live:
        block(live, tap, latch)
        one, two = live.request(), live.request()
        third = live.running.checkpoint()
        live.until(lambda: live.running.coordinator._queue)
        assert live.running.history.counts()["IN_PROGRESS"] == 2
        latch.let()
        taken = [live.completed(f) for f in (one, two, third)]
        assert [t.id for t in taken] == [1, 2, 3]
        assert [t.user for t in taken] == [{"offsets": {"seen": 100 + n}} for n in (1, 2, 3)]
        refuse.add(4)
        assert (
            "a snapshot hook failed: ValueError('not now')"
            in refusal(live.running.checkpoint()).message
        )
        assert live.figures(4).reason == "DECLINED"
        assert live.checkpoint().id == 5
        assert heard == [1, 2, 3, 5]
        assert asked_for == [1, 2, 3, 4, 5]
        assert live.state == "RUNNING"


def test_a_snapshot_that_fails_is_given_up_without_a_trace_and_the_job_lives(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    options = {"tolerable": 99, "retained": 99, **EVERYTHING_IN_FILES}
    with running(one_region(tap), tmp_path, **options) as live:
        tap.give(10)
        live.until(lambda: live.committed("count") == 0)
        live.checkpoint()

        in_the_way = live.checkpoints / "chk-2"
        in_the_way.write_text("somebody else's")
        before = tree_of(live.checkpoints)
        refusal(live.running.checkpoint())
        assert live.figures(2).reason in ("SNAPSHOT_FAILED", "STORE_FAILED")
        assert tree_of(live.checkpoints) == before
        in_the_way.unlink()

        tap.give(10)
        live.until(lambda: live.committed("count") == 1)
        log = Path(live.running.attempt.region("count"))
        needed = list(log.glob("state/0/*/2.delta"))
        for file in needed:
            file.unlink()
        before = tree_of(live.checkpoints)
        message = refusal(live.running.checkpoint()).message
        assert "region count" in message
        assert "2.delta" in message
        assert live.figures(3).reason == "SNAPSHOT_FAILED"
        assert tree_of(live.checkpoints) == before
        assert live.state == "RUNNING"

        # Spark writes its whole state again before long, and that can be kept.
        def kept() -> bool:
            tap.give(1)
            live.settle()
            return live.running.checkpoint().exception(PATIENCE) is None

        live.until(kept)
        latest = live.running.store.latest
        assert latest is not None
        verify(*read_checkpoint(live.path(latest)))
        reopened = History(str(tmp_path / "history" / live.running.job_id))
        assert [f.status for f in reopened.all()][:3] == [
            Status.COMPLETED,
            Status.FAILED,
            Status.FAILED,
        ]
        last = reopened.get(latest.id)
        assert last == live.figures(latest.id)
        assert last is not None
        assert last.acknowledged["count"].state_size == latest.size


def test_a_checkpoint_whose_statistics_cannot_be_written_is_complete_all_the_same(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    with running(one_region(tap), tmp_path, **EVERYTHING_IN_FILES) as live:
        in_the_way = tmp_path / "history" / live.running.job_id / "1.json"
        in_the_way.parent.mkdir(parents=True)
        in_the_way.write_text("somebody else's")
        tap.give(10)
        live.settle()
        taken = live.checkpoint()
        assert live.figures(taken.id).status is Status.COMPLETED
        verify(*read_checkpoint(live.path(taken)))
        assert live.state == "RUNNING"


def test_a_bounded_job_takes_checkpoints_to_the_end_and_the_last_commits_everything(
    spark: Any, tmp_path: Path
) -> None:
    a, b = Tap(), Tap()
    out = tmp_path / "out"
    job = hf.Job("job")
    job.source("a", a)
    job.source("b", b)
    job.region("left", reads="a")(passed)
    job.region("right", reads="b")(passed)
    job.region("both", reads=["left", "right"])(passed)
    job.sink("files", "both", hf.sinks.files(out))
    with running(job, tmp_path, interval="1h") as live:
        a.end(10)
        live.until(lambda: live.running.regions["left"].finished)
        b.give(6)
        live.until(lambda: live.committed("right") == 0)
        live.checkpoint()
        assert sorted(visible(out).elements()) == sorted([*range(10), *range(6)])
        b.end(4)
        assert live.until_over() == "FINISHED"
        assert sorted(visible(out).elements()) == sorted([*range(10), *range(10)])
        assert [f.cause for f in live.running.history.all()] == ["USER", "FINAL"]


def test_a_checkpoint_before_the_first_batch_can_be_restored(spark: Any, tmp_path: Path) -> None:
    tap, latch = Tap(), Latch()
    with running(chain(tap, latch), tmp_path, latch) as live:
        taken = live.checkpoint()
        assert [r.cut for r in taken.regions if r.uid == "left"] == [-1]
        tap.give(7)
        live.settle()
        path = live.path(taken)
    with running(chain(tap, latch), tmp_path, latch, restore=path) as live:
        live.settle()
        assert final_state(spark, live) == counts(range(7))
        again = live.checkpoint()
        assert again.id > taken.id
        assert state_at(spark, live.path(again), "count", tmp_path / "at") == counts(range(7))
