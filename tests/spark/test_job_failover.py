"""Regions that fail, and who restarts, from what, how often: judged by recount."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import HoldfastError, UsageError
from holdfast.protocol.records import FailureRecord
from holdfast.protocol.statistics import Status
from holdfast.runtime.failure_log import FailureLog
from tests.spark.jobs import (
    Live,
    chain,
    counted,
    counts,
    final_state,
    passed,
    prepared,
    running,
    visible,
)
from tests.spark.taps import Latch, Tap, drained

RULES = "Recoverable: text=the fuse blew"


class Fuse:
    """A plain sink that fails batches when told to."""

    def __init__(self) -> None:
        self.left = 0
        self.blown = 0

    def blow(self, times: int = 1) -> None:
        self.left = times

    def __call__(self, rows: Any, batch: int) -> None:
        drained(rows, batch)
        if self.left > 0:
            self.left -= 1
            self.blown += 1
            raise RuntimeError("the fuse blew")


def failing_over(
    job: hf.Job, home: Path, *latches: Latch, **options: object
) -> AbstractContextManager[Live]:
    """A job that restarts at once, for ever, unless the options say otherwise."""
    chosen: dict[str, object] = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "holdfast.failure-rules": RULES,
        **options,
    }
    return running(job, home, *latches, **chosen)


def chained(tap: Tap, *sinks: Any, left_sink: Any = None) -> hf.Job:
    """A source region, and a count behind a channel."""
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    job.region("count", reads="left", output_mode="update")(counted)
    if left_sink is not None:
        job.sink("left-sink", "left", left_sink)
    for number, sink in enumerate(sinks):
        job.sink(f"sink-{number}", "count", sink)
    return job


def run_ids(live: Live) -> dict[str, str]:
    regions = live.running.regions.items()
    return {uid: str(region.query.runId) for uid, region in regions if region.query is not None}


def failures(live: Live) -> list[FailureRecord]:
    return live.running.failures.all()


def all_recovered(live: Live, number: int) -> bool:
    found = failures(live)
    return len(found) == number and all(record.recovered is not None for record in found)


def test_one_region_restarts_and_the_others_do_not_notice(spark: Any, tmp_path: Path) -> None:
    tap, fuse = Tap(), Fuse()
    with failing_over(chained(tap, hf.sinks.foreach_batch(fuse)), tmp_path) as live:
        tap.give(10, times=3)
        live.settle()
        before, attempt = run_ids(live), live.running.attempt.number
        fuse.blow()
        tap.give(10, times=3)
        live.until(lambda: all_recovered(live, 1))
        live.settle()
        after = run_ids(live)
        assert fuse.blown == 1
        assert after["left"] == before["left"]
        assert after["count"] != before["count"]
        assert live.running.attempt.number == attempt
        assert live.state == "RUNNING"
        assert final_state(spark, live) == counts(range(60))
        [record] = failures(live)
        assert (record.region, record.kind, record.scope) == ("count", "Recoverable", "individual")
        assert record.duration is not None
        assert record.attempt == 1


def test_a_producer_that_fails_restarts_while_its_reader_goes_on(
    spark: Any, tmp_path: Path
) -> None:
    tap, fuse = Tap(), Fuse()
    job = chained(tap, hf.sinks.foreach_batch(drained), left_sink=hf.sinks.foreach_batch(fuse))
    with failing_over(job, tmp_path) as live:
        tap.give(10, times=2)
        live.settle()
        before = run_ids(live)
        fuse.blow()
        tap.give(10, times=4)
        live.until(lambda: all_recovered(live, 1))
        live.settle()
        after = run_ids(live)
        assert after["count"] == before["count"]
        assert after["left"] != before["left"]
        # The segment of the failed batch was published before the sink failed; it came once.
        assert final_state(spark, live) == counts(range(60))


def test_scope_region_restarts_those_joined_by_channels_and_no_others(
    spark: Any, tmp_path: Path
) -> None:
    a, b, fuse = Tap(), Tap(), Fuse()
    job = chained(a, hf.sinks.foreach_batch(fuse))
    job.source("b", b)
    job.region("alone", reads="b", output_mode="update")(counted)
    job.sink("alone-sink", "alone", hf.sinks.foreach_batch(drained))
    strategy = {"jobmanager.execution.failover-strategy": "region"}
    with failing_over(job, tmp_path, **strategy) as live:
        a.give(10)
        b.give(7)
        live.settle()
        before = run_ids(live)
        fuse.blow()
        a.give(10, times=2)
        b.give(7)
        live.until(lambda: all_recovered(live, 1))
        live.settle()
        after = run_ids(live)
        assert after["alone"] == before["alone"]
        assert after["left"] != before["left"]
        assert after["count"] != before["count"]
        assert final_state(spark, live) == counts(range(30))
        assert final_state(spark, live, "alone") == counts(range(14))


def test_scope_full_restarts_everything_where_it_stands(spark: Any, tmp_path: Path) -> None:
    tap, fuse = Tap(), Fuse()
    job = chained(tap, hf.sinks.foreach_batch(fuse), hf.sinks.files(tmp_path / "out"))
    strategy = {"jobmanager.execution.failover-strategy": "full"}
    with failing_over(job, tmp_path, **strategy) as live:
        tap.give(10)
        live.settle()
        live.checkpoint()
        before, attempt = run_ids(live), live.running.attempt.number
        fuse.blow()
        tap.give(10, times=2)
        live.until(lambda: all_recovered(live, 1))
        live.settle()
        assert not set(before.values()) & set(run_ids(live).values())
        assert live.running.attempt.number == attempt
        assert final_state(spark, live) == counts(range(30))
        assert live.checkpoint().id == 2


def test_a_region_that_goes_on_failing_climbs_the_ladder_up_to_a_checkpoint(
    spark: Any, tmp_path: Path
) -> None:
    tap, fuse, out = Tap(), Fuse(), tmp_path / "out"
    job = chained(tap, hf.sinks.foreach_batch(fuse), left_sink=hf.sinks.files(out))
    with failing_over(job, tmp_path) as live:
        tap.give(10, times=2)
        live.settle()
        live.checkpoint()
        attempt = live.running.attempt.number
        fuse.blow(3)
        tap.give(10)
        live.until(lambda: all_recovered(live, 3))
        live.settle()
        # All regions are joined, so restarting all of them would be the second rung again.
        assert [r.scope for r in failures(live)] == ["individual", "region", "full"]
        assert live.running.attempt.number == attempt + 1
        assert live.running.attempt.restored_from == 1
        live.checkpoint()
        assert final_state(spark, live) == counts(range(30))
        assert visible(out) == dict.fromkeys(range(30), 1)


def test_a_batch_that_was_committed_begins_the_ladder_anew(spark: Any, tmp_path: Path) -> None:
    tap, fuse = Tap(), Fuse()
    with failing_over(chained(tap, hf.sinks.foreach_batch(fuse)), tmp_path) as live:
        for _ in range(3):
            expected = len(failures(live)) + 1
            fuse.blow()
            tap.give(10)
            live.until(functools.partial(all_recovered, live, expected))
            live.settle()
        assert [record.scope for record in failures(live)] == ["individual"] * 3
        assert final_state(spark, live) == counts(range(30))


def test_user_code_that_fails_ends_the_job_at_once(tmp_path: Path) -> None:
    tap, latch = Tap(), Latch()
    with failing_over(chain(tap, latch), tmp_path, latch) as live:
        tap.give(10)
        live.settle()
        latch.hold()
        tap.give(10)
        live.until(lambda: latch.held is not None)
        latch.fail()
        live.running.wait(90)
        assert live.state == "FAILED"
        [record] = failures(live)
        assert record.kind == "NonRecoverable"
        assert record.delay is None
        assert "not recoverable" in record.decision
        assert "told to fail" in str(live.running.failure)


def test_a_job_that_cannot_even_start_has_that_on_record(spark: Any, tmp_path: Path) -> None:
    job = hf.Job("job")
    job.source("a", Tap())
    job.region("left", reads="a")(lambda rows: None)
    job.sink("out", "left", hf.sinks.foreach_batch(drained))
    made = prepared(job, tmp_path, {})
    with pytest.raises(UsageError, match="must return a streaming DataFrame"):
        made.start()
    assert made.state.value == "FAILED"
    [record] = made.failures.all()
    assert (record.kind, record.decision) == ("NonRecoverable", "the job failed")


def test_the_restart_strategy_is_obeyed_and_named_when_it_gives_up(tmp_path: Path) -> None:
    tap, fuse = Tap(), Fuse()
    attempts = {"restart-strategy.fixed-delay.attempts": "3"}
    job = chained(tap, hf.sinks.foreach_batch(fuse))
    with failing_over(job, tmp_path, **attempts) as live:
        fuse.blow(100)
        tap.give(10)
        live.running.wait(90)
        assert live.state == "FAILED"
        assert fuse.blown == 4, "three restarts, so four failures"
        assert "Recovery is suppressed by" in str(live.running.failure)
        # They are still there for whoever asks later.
        history = live.running.settings.history_dir
        kept = FailureLog(f"{history}/{live.running.job_id}").all()
        assert [record.attempt for record in kept] == [1, 2, 3, None]


def test_a_segment_that_is_gone_takes_the_job_back_to_its_checkpoint(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch = Tap(), Latch()
    out = tmp_path / "out"
    job = chained(tap, hf.sinks.foreach_batch(latch), left_sink=hf.sinks.files(out))
    with failing_over(job, tmp_path, latch, batch_bytes="1b") as live:
        tap.give(10, times=2)
        live.settle()
        live.checkpoint()
        latch.hold()
        tap.give(10, times=3)
        live.until(lambda: live.committed("left") == 4 and latch.held is not None)
        victim = live.running.channels["left"].paths(4, 5)[0]
        Path(victim).unlink()
        latch.let()
        live.until(lambda: all_recovered(live, 1))
        live.settle()
        [record] = failures(live)
        assert (record.kind, record.region) == ("PartitionDataMissing", "count")
        assert live.running.attempt.restored_from == 1
        live.checkpoint()
        assert final_state(spark, live) == counts(range(50))
        assert visible(out) == dict.fromkeys(range(50), 1)


def test_checkpoints_that_wait_for_a_failed_region_are_aborted_and_later_ones_complete(
    spark: Any, tmp_path: Path
) -> None:
    tap, fuse, latch = Tap(), Fuse(), Latch()
    job = chained(tap, hf.sinks.foreach_batch(latch), hf.sinks.foreach_batch(fuse))
    with failing_over(job, tmp_path, latch) as live:
        tap.give(10)
        live.settle()
        latch.hold()
        tap.give(10)
        live.until(lambda: latch.held is not None)
        aborted = live.request()
        fuse.blow()
        latch.let()
        with pytest.raises(HoldfastError, match="A region failed"):
            aborted.result(90)
        live.until(lambda: all_recovered(live, 1))
        live.settle()
        assert live.figures(1).status is Status.FAILED
        assert live.figures(1).reason == "REGION_FAILED"
        assert live.checkpoint().id == 2
        assert final_state(spark, live) == counts(range(20))


def test_a_bounded_job_that_failed_on_the_way_ends_as_if_it_had_not(
    spark: Any, tmp_path: Path
) -> None:
    tap, fuse, out = Tap(), Fuse(), tmp_path / "out"
    job = chained(tap, hf.sinks.foreach_batch(fuse), left_sink=hf.sinks.files(out))
    with failing_over(job, tmp_path, **{"jobmanager.execution.failover-strategy": "full"}) as live:
        fuse.blow(2)
        tap.give(10)
        tap.end(10)
        assert live.until_over() == "FINISHED"
        assert visible(out) == dict.fromkeys(range(20), 1)
        assert fuse.blown == 2


def test_a_start_that_fails_for_a_while_is_tried_again(spark: Any, tmp_path: Path) -> None:
    tap = Tap()
    refusals = [ConnectionRefusedError("no server yet"), ConnectionRefusedError("not yet")]

    def source(session: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return tap(session)

    source.bounded = True  # type: ignore[attr-defined]
    source.finished = tap.finished  # type: ignore[attr-defined]
    source.stop = tap.stop  # type: ignore[attr-defined]
    job = hf.Job("job")
    job.source("a", source)
    job.region("count", reads="a", output_mode="update")(counted)
    job.sink("sink", "count", hf.sinks.foreach_batch(drained))
    with failing_over(job, tmp_path) as live:
        tap.give(10)
        live.until(lambda: live.committed("count") == 0)
        assert len(failures(live)) == 2
        assert final_state(spark, live) == counts(range(10))


def damage_state(log: str) -> None:
    """Take away all state files of the newest versions from a query log."""
    for file in sorted(Path(log).glob("state/0/*/*")):
        if file.suffix in (".delta", ".snapshot", ".zip", ".changelog"):
            file.unlink()


def damage_checkpoint(live: Live, number: int, region: str) -> str:
    """Cut one state file of a checkpoint short; returns its path."""
    found = live.running.store.completed[number].region(region)
    assert found is not None
    places = [f.place for f in found.files if f.place and "state/" in f.path and f.size > 8]
    victim = Path(live.running.store.location) / places[-1]
    victim.write_bytes(victim.read_bytes()[:-1])
    return str(victim)


@pytest.mark.parametrize("readable", [True, False], ids=["state damaged", "metadata damaged"])
def test_behind_a_damaged_checkpoint_batches_run_again_and_no_row_is_written_twice(
    spark: Any, tmp_path: Path, readable: bool
) -> None:
    tap, out, totals = Tap(), tmp_path / "out", tmp_path / "totals"

    def job() -> hf.Job:
        return chained(tap, hf.sinks.files(totals), left_sink=hf.sinks.files(out))

    options = {"inline": "0b", "retained": 5, "backend": "hashmap"}
    with failing_over(job(), tmp_path, **options) as live:
        tap.give(10, times=2)
        live.settle()
        live.checkpoint()
        tap.give(10, times=3)
        live.settle()
        live.checkpoint()
        committed = visible(totals, "key")
        tap.give(10)
        live.settle()
        log = live.running.attempt.region("count")
        if readable:
            damage_checkpoint(live, 2, "count")
        else:
            (live.checkpoints / "chk-2" / "_metadata").write_text("{")
    damage_state(log)
    with failing_over(job(), tmp_path, **options) as live:
        found = live.running.found
        assert (found.restored_from, [c.id for c in found.passed_over]) == (1, [2])
        live.settle()
        assert visible(out) == dict.fromkeys(range(50), 1)
        assert visible(totals, "key") == committed
        assert final_state(spark, live) == counts(range(60))
        live.checkpoint()
        assert visible(out) == dict.fromkeys(range(60), 1)
        assert sum(visible(totals, "key").values()) == sum(committed.values()) + 5


def test_at_most_once_goes_on_with_empty_state(spark: Any, tmp_path: Path) -> None:
    tap = Tap()
    job = hf.Job("job")
    job.source("a", tap)
    job.region("count", reads="a", output_mode="update")(counted)
    job.sink("sink", "count", hf.sinks.foreach_batch(drained))
    with failing_over(job, tmp_path, mode="at-most-once") as live:
        tap.give(10)
        live.settle()
        first = live.running.attempt.number
        with pytest.raises(HoldfastError, match="no checkpoints"):
            live.running.checkpoint()
    with failing_over(job, tmp_path, mode="at-most-once") as live:
        live.until(lambda: live.committed("count") == 0)
        assert live.running.attempt.number == first + 1
        # The tap begins with its first row; a source that begins with its newest would not.
        assert final_state(spark, live) == counts(range(10))


def test_a_bounded_job_begins_from_scratch_if_asked_to(spark: Any, tmp_path: Path) -> None:
    tap, out = Tap(), tmp_path / "out"
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    job.sink("files", "left", hf.sinks.files(out))
    scratch = {"holdfast.bounded.restart": "scratch"}
    with failing_over(job, tmp_path, **scratch) as live:
        tap.give(10)
        live.settle()
        first = live.running.attempt.number
    with failing_over(job, tmp_path, **scratch) as live:
        assert live.running.attempt.number == first + 1
        tap.end(10)
        assert live.until_over() == "FINISHED"
        assert visible(out) == dict.fromkeys(range(20), 1)


def test_a_failure_while_a_restart_is_due_joins_it(spark: Any, tmp_path: Path) -> None:
    a, b, fuse, latch = Tap(), Tap(), Fuse(), Latch()
    job = hf.Job("job")
    for uid, tap, sink in (("one", a, fuse), ("two", b, latch)):
        job.source(f"{uid}-rows", tap)
        job.region(uid, reads=f"{uid}-rows", output_mode="update")(counted)
        job.sink(f"{uid}-sink", uid, hf.sinks.foreach_batch(sink))
    options = {
        "restart-strategy.fixed-delay.delay": "8 s",
        "holdfast.failure-rules": f"{RULES}; Recoverable: text=told to fail",
    }
    with failing_over(job, tmp_path, latch, **options) as live:
        a.give(10)
        b.give(10)
        live.settle()
        latch.hold()
        b.give(10)
        live.until(lambda: latch.held is not None)
        fuse.blow()
        a.give(10)
        live.until(lambda: live.running.next_restart is not None)
        latch.fail()
        live.until(lambda: len(failures(live)) == 2)
        latch.mend()
        live.until(lambda: all_recovered(live, 2))
        live.settle()
        first, second = failures(live)
        assert (first.merged_into, second.merged_into) == (None, first.number)
        assert len(live.running.failover.past) == 1, "one restart was counted"
        for uid in ("one", "two"):
            assert final_state(spark, live, uid) == counts(range(20))
