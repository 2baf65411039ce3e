"""Starting again: where a job left off, from a checkpoint, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import DamagedFile, FileMissing, HoldfastError, MissingFile, NotRestorable
from holdfast.runtime.attempts import AlreadyEnded
from tests.spark.jobs import (
    chain,
    counts,
    final_state,
    named,
    one_region,
    passed,
    prepared,
    running,
    staged,
    tree_of,
    visible,
)
from tests.spark.taps import Latch, Tap, until


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_goes_on_exactly_where_it_was_or_from_a_checkpoint_in_a_new_attempt(
    spark: Any, tmp_path: Path, backend: str
) -> None:
    tap, latch = Tap(), Latch()
    with running(chain(tap, latch), tmp_path, latch, backend=backend) as live:
        tap.give(5, times=2)
        live.settle()
        first = live.checkpoint()
        tap.give(5)
        live.until(lambda: live.committed("left") == 2)
    assert live.state == "SUSPENDED"
    with running(chain(tap, latch), tmp_path, latch, backend=backend, retained=2) as live:
        tap.give(5)
        live.settle()
        assert final_state(spark, live) == counts(range(20))
        assert live.running.attempt.number == 1
        second = live.checkpoint()
        assert second.id == first.id + 1
        path, old = live.path(first), tmp_path / "work/job/attempt-1"
    before = tree_of(old)
    options = {"backend": backend, "retained": 3, "restore": path}
    with running(chain(tap, latch), tmp_path, latch, **options) as live:
        assert live.running.attempt.number == 2
        assert live.running.attempt.restored_from == first.id
        assert live.committed("left") == 1
        live.settle()
        assert final_state(spark, live) == counts(range(20))
        assert tree_of(old) == before
        assert live.checkpoint().id == second.id + 1
        # Nobody goes back there once the new attempt has a checkpoint.
        live.until(lambda: not old.exists())


@dataclass(frozen=True)
class Kept:
    """A checkpoint, moved away with all it shares, and the job that made it."""

    home: Path
    checkpoints: Path
    shared: str
    own: str

    @property
    def path(self) -> str:
        return str(self.checkpoints / "chk-1")


@pytest.fixture(scope="module")
def kept(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    home = tmp_path_factory.mktemp("kept")
    tap = Tap()
    with running(one_region(tap), home, inline="0b", incremental="true") as live:
        tap.give(10)
        live.until(lambda: live.committed("count") == 0)
        taken = live.checkpoint()
        copied = home / "elsewhere"
        shutil.copytree(live.checkpoints, copied)
    places = [file.place for file in taken.files if file.place]
    shared = next(p for p in places if p.startswith("shared/"))
    return Kept(home, copied, shared, next(p for p in places if p.startswith("chk-1/")))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def altered_shared(kept: Kept) -> str:
    flip(kept.checkpoints / kept.shared)
    return kept.shared


def altered_own(kept: Kept) -> str:
    flip(kept.checkpoints / kept.own)
    return kept.own


def missing_shared(kept: Kept) -> str:
    (kept.checkpoints / kept.shared).unlink()
    return kept.shared


def missing_metadata(kept: Kept) -> str:
    (kept.checkpoints / "chk-1/_metadata").unlink()
    return "chk-1/_metadata"


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (altered_shared, DamagedFile),
        (altered_own, DamagedFile),
        (missing_shared, MissingFile),
        (missing_metadata, FileMissing),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name_and_nothing_changes(
    spark: Any,
    tmp_path: Path,
    kept: Kept,
    damage: Callable[[Kept], str],
    error: type[HoldfastError],
) -> None:
    copied = Kept(kept.home, tmp_path / "copied", kept.shared, kept.own)
    shutil.copytree(kept.checkpoints, copied.checkpoints)
    named_file = damage(copied)
    before = tree_of(kept.home)
    with pytest.raises(error) as caught:
        prepared(one_region(Tap()), kept.home, named({"restore": copied.path}))
    assert named_file in str(caught.value)
    assert tree_of(kept.home) == before


def test_the_checkpoint_of_another_job_is_refused_with_every_difference(
    spark: Any, kept: Kept
) -> None:
    before = tree_of(kept.home)
    with pytest.raises(NotRestorable) as caught:
        prepared(chain(Tap(), Latch()), kept.home, named({"restore": kept.path}))
    assert "the job has region 'left', the checkpoint has not" in caught.value.message
    assert "reads other regions than it did" in caught.value.message
    assert tree_of(kept.home) == before


def test_a_job_that_has_finished_is_not_started_again_unless_afresh(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    with running(one_region(tap), tmp_path) as live:
        tap.end(5)
        assert live.until_over() == "FINISHED"
    with pytest.raises(AlreadyEnded, match="FINISHED"):
        prepared(one_region(tap), tmp_path, {})
    with running(one_region(tap), tmp_path, fresh=True) as live:
        assert live.until_over() == "FINISHED"
        assert live.running.attempt.number == 2
        assert final_state(spark, live) == counts(range(5))


def test_a_job_stopped_after_its_last_row_finishes_when_it_is_started_again(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch = Tap(), Latch()
    latch.hold()
    with running(chain(tap, latch), tmp_path, latch, **{"interval": "1h"}) as live:
        tap.end(5)
        live.until(lambda: live.running.regions["left"].finished and latch.held == 0)
        latch.fail()
        until(lambda: live.running.state.is_over)
    with running(chain(tap, Latch()), tmp_path) as live:
        assert live.until_over() == "FINISHED"
        assert final_state(spark, live) == counts(range(5))


@pytest.mark.parametrize("retention", ["retain-on-cancellation", "delete-on-cancellation"])
def test_a_cancelled_job_keeps_or_deletes_its_checkpoints_and_aborts_what_is_pending(
    spark: Any, tmp_path: Path, retention: str
) -> None:
    tap, latch = Tap(), Latch()
    out = tmp_path / "out"
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    job.region("down", reads="left")(passed)
    job.sink("files", "left", hf.sinks.files(out))
    job.sink("latch", "down", hf.sinks.foreach_batch(latch))
    with running(job, tmp_path, latch, retention=retention) as live:
        tap.give(5)
        live.settle()
        taken = live.checkpoint()
        latch.hold()
        tap.give(5)
        live.until(lambda: latch.held is not None)
        live.request()
        live.until(lambda: staged(out))
        live.running.cancel()
        latch.let()
        until(lambda: live.running.state.is_over)
        assert live.state == "CANCELED"
    assert sorted(visible(out)) == list(range(5))
    assert not staged(out)
    kept = [path.name for path in live.checkpoints.glob("chk-*")]
    retained = retention == "retain-on-cancellation"
    assert kept == ([f"chk-{taken.id}"] if retained else [])
    with pytest.raises(AlreadyEnded, match="CANCELED"):
        prepared(job, tmp_path, {})
