"""What the random jobs of ``tests/faults`` cover, and that their judge sees what is wrong."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.sinks.files.manifest import CommittedEpoch, Manifest
from holdfast.storage import open_storage
from tests.faults.jobs.judge import (
    Recount,
    Rows,
    check_every_epoch,
    check_growth,
    check_output,
    newest_counts,
)
from tests.faults.jobs.plans import DEFAULT_SEEDS, EVERYTHING, plan_of, seeds_of
from tests.faults.jobs.specs import JobSpec, RegionSpec, SourceSpec

COUNT = RegionSpec("counted", "count", ("let-through",), modulus=7)
JOB = JobSpec(
    (SourceSpec("numbers", 10, 1, 1),),
    (RegionSpec("let-through", "pass", ("numbers",), modulus=2), COUNT),
)


def test_the_seeds_of_the_suite_cover_every_mode_backend_and_shape_together() -> None:
    covered = set().union(*(plan_of(seed).covers() for seed in seeds_of(DEFAULT_SEEDS)))
    assert EVERYTHING - covered == set()


def test_every_kind_of_thing_comes_up_in_a_long_run() -> None:
    plans = [plan_of(seed) for seed in seeds_of("1-40")]
    for thing in EVERYTHING:
        assert sum(thing in plan.covers() for plan in plans) >= 4, thing


def test_seeds_are_numbers_and_ranges_of_them() -> None:
    assert seeds_of("33,1-3") == [33, 1, 2, 3]


def test_rows_in_flight_are_put_out_by_the_producer_and_not_yet_seen_by_its_reader() -> None:
    reads = {("let-through", "numbers"): 10}
    in_flight: Rows = Rows({("numbers", 9): 1, ("numbers", 5): 1})
    recount = Recount(JOB, reads, {("counted", "let-through"): in_flight})
    assert sorted(n for _, n in recount.output(JOB.regions[0])) == [1, 3, 5, 7, 9]
    assert recount.counts(COUNT) == {1: 1, 3: 1}  # 1 and 3; it does not let 7 through


def test_rows_in_flight_that_nobody_has_put_out_are_found() -> None:
    stray: Rows = Rows({("numbers", 4): 1})
    recount = Recount(JOB, {("let-through", "numbers"): 10}, {("counted", "let-through"): stray})
    with pytest.raises(AssertionError, match="from let-through to counted: rows nobody has made"):
        recount.counts(COUNT)


def test_a_count_that_comes_twice_is_found_although_the_largest_is_right() -> None:
    rows = [{"key": 1, "count": n} for n in (3, 5, 3)]
    with pytest.raises(AssertionError, match=r"more than once: \[\(1, 3\)\]"):
        newest_counts(rows, "here")


def test_an_epoch_whose_counts_are_not_above_the_last_is_found() -> None:
    check_growth({1: 5}, [{"key": 1, "count": 6}, {"key": 2, "count": 1}], "here")
    with pytest.raises(AssertionError, match="not above"):
        check_growth({1: 5}, [{"key": 1, "count": 4}], "here")


PASSED = JobSpec(JOB.sources, JOB.regions[:1])


def committed(out: Path, checkpoint: int, numbers: list[int]) -> None:
    """As the files sink leaves an epoch."""
    folder = out / "sinks" / "let-through"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{checkpoint}.parquet"
    pq.write_table(pa.table({"s": ["numbers"] * len(numbers), "n": numbers}), folder / name)
    epoch = CommittedEpoch("j", "sink", checkpoint, len(numbers), 0.0, ((name, 1),))
    Manifest(open_storage(folder), "j", "sink").add(epoch)


@pytest.mark.parametrize(
    ("first", "second"),
    [([1, 3], [5, 7, 9]), ([1], [3, 5, 7, 9]), ([1, 3, 5], [7, 9])],
    ids=["right", "late", "early"],
)
def test_rows_that_became_visible_with_another_checkpoint_than_theirs_are_found(
    tmp_path: Path, first: list[int], second: list[int]
) -> None:
    committed(tmp_path, 4, first)
    committed(tmp_path, 6, second)
    read = {4: 5, 5: 5, 6: 10}
    recounts = {n: Recount(PASSED, {("let-through", "numbers"): rows}) for n, rows in read.items()}
    check_output(PASSED, tmp_path, recounts[6])  # all are there in the end
    if first == [1, 3]:
        check_every_epoch(PASSED, tmp_path, recounts)
    else:
        with pytest.raises(AssertionError, match=r"at checkpoint 4: . rows lost, . too many"):
            check_every_epoch(PASSED, tmp_path, recounts)
