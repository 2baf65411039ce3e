"""When rows become visible, and what becomes of transactions when something fails."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoints.metadata import CheckpointMetadata
from holdfast.checkpoints.store import CheckpointWriter
from holdfast.errors import HoldfastError, StorageError
from holdfast.sinks import Epoch
from tests.spark.jobs import (
    counted,
    counts,
    one_region,
    passed,
    running,
    staged,
    tree_of,
    visible,
)
from tests.spark.taps import Latch, Tap, until


def two_regions(tap: Tap, latch: Latch, out: Path) -> hf.Job:
    """Files from the first region; the second can be held, and with it every checkpoint."""
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    job.region("down", reads="left")(passed)
    job.sink("files", "left", hf.sinks.files(out))
    job.sink("latch", "down", hf.sinks.foreach_batch(latch))
    return job


def test_rows_appear_with_their_checkpoint_up_to_the_cut_and_committing_again_changes_nothing(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch, out = Tap(), Latch(), tmp_path / "out"
    with running(two_regions(tap, latch, out), tmp_path, latch) as live:
        live.settle()
        latch.hold()
        tap.give(5, times=2)
        live.until(lambda: live.committed("left") == 1 and latch.held is not None)
        assert not visible(out)
        asked = live.request()
        live.until(lambda: staged(out))
        tap.give(5)
        live.until(lambda: live.committed("left") == 2)
        assert not visible(out)
        latch.let()
        taken = live.completed(asked)
        assert sorted(visible(out).elements()) == list(range(10))
        assert not staged(out)

        (transaction,) = taken.transactions
        before = tree_of(out)
        sink = hf.sinks.files(out)
        epoch = Epoch("id", 1, "files", 1, (), spark, None)
        sink.commit(epoch, transaction.handle)
        sink.recover_and_commit(epoch, transaction.handle)
        assert tree_of(out) == before
        live.checkpoint()
        assert sorted(visible(out).elements()) == list(range(15))


def test_what_no_completed_checkpoint_owns_is_aborted_on_restart_and_written_again(
    spark: Any, tmp_path: Path
) -> None:
    tap, latch, out = Tap(), Latch(), tmp_path / "out"
    with running(two_regions(tap, latch, out), tmp_path, latch) as live:
        tap.give(5)
        live.settle()
        live.checkpoint()
        latch.hold()
        tap.give(5)
        live.until(lambda: latch.held is not None)
        live.request()
        live.until(lambda: any(sink.look() for sink in live.running.sinks))
        assert staged(out)
        shutil.copytree(out / "_holdfast", tmp_path / "left behind")
        latch.fail()
        until(lambda: live.running.state.is_over)
    assert not staged(out)
    # As if the process had been killed instead.
    shutil.copytree(tmp_path / "left behind", out / "_holdfast", dirs_exist_ok=True)
    assert staged(out)
    with running(two_regions(tap, Latch(), out), tmp_path) as live:
        assert not staged(out)
        assert sorted(visible(out)) == list(range(5))
        live.settle()
        live.checkpoint()
        assert sorted(visible(out).elements()) == list(range(10))


class Ledger:
    """An epoch sink in memory, whose commits fail as long as it is told to."""

    keeps_rows = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prepared: dict[int, list[int]] = {}
        self.refused = 0
        self.failing = False
        self.aborted: list[int] = []
        self.rows: list[int] = []

    def check(self, spark: Any, schema: Any) -> None:
        pass

    def describe(self, handle: Mapping[str, Any]) -> list[str]:
        return [str(handle)]

    def pre_commit(self, epoch: Epoch) -> Mapping[str, Any]:
        with self._lock:
            self._prepared[epoch.checkpoint] = [row["n"] for row in epoch.rows().collect()]
        return {"checkpoint": epoch.checkpoint}

    def commit(self, epoch: Epoch, handle: Mapping[str, Any]) -> None:
        with self._lock:
            if self.failing:
                self.refused += 1
                raise ConnectionError("the store is away")
            self.rows += self._prepared.pop(handle["checkpoint"], [])

    def recover_and_commit(self, epoch: Epoch, handle: Mapping[str, Any]) -> None:
        self.commit(epoch, handle)

    def abort(self, handle: Mapping[str, Any]) -> None:
        with self._lock:
            if self._prepared.pop(handle["checkpoint"], None) is not None:
                self.aborted.append(handle["checkpoint"])

    def pending(self, job_id: str, sink: str) -> Sequence[Mapping[str, Any]]:
        return [{"checkpoint": number} for number in sorted(self._prepared)]


def passing(tap: Tap, sink: Any) -> hf.Job:
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    job.sink("ledger", "left", sink)
    return job


def promised(taken: CheckpointMetadata) -> list[int]:
    return [transaction.checkpoint for transaction in taken.transactions]


def test_a_commit_that_fails_is_tried_again_and_the_next_checkpoint_waits_for_it(
    spark: Any, tmp_path: Path
) -> None:
    tap, ledger = Tap(), Ledger()
    with running(passing(tap, ledger), tmp_path) as live:
        ledger.failing = True
        tap.give(5)
        live.until(lambda: live.committed("left") == 0)
        assert promised(live.checkpoint()) == [1]
        tap.give(5)
        live.until(lambda: live.committed("left") == 1)
        second = live.running.checkpoint()  # is not triggered, so it cannot expire
        live.until(lambda: ledger.refused >= 3)
        assert len(live.running.history.all()) == 1
        (figures,) = live.running.commits.figures
        assert (figures.waiting_for, figures.error) == (1, "the store is away")
        assert not second.done()
        assert ledger.rows == []
        ledger.failing = False
        assert promised(live.completed(second)) == [2]
        assert sorted(ledger.rows) == list(range(10))
        assert live.running.commits.figures[0].waiting_for is None
        assert promised(live.checkpoint()) == []
        assert live.state == "RUNNING"


def test_a_region_whose_sink_cannot_commit_stops_reading_when_too_much_is_staged(
    spark: Any, tmp_path: Path
) -> None:
    tap, ledger = Tap(), Ledger()
    with running(passing(tap, ledger), tmp_path, capacity="1b") as live:
        tap.give(5, times=2)
        live.until(lambda: live.committed("left") == 1)  # rows that wait for a checkpoint may
        ledger.failing = True
        live.checkpoint()
        live.until(lambda: live.running.commits.figures[0].in_a_row >= 1)
        tap.give(5)
        live.until(lambda: live.running.regions["left"].figures.backpressured > 1)
        assert live.committed("left") == 1
        ledger.failing = False
        live.until(lambda: live.committed("left") == 2)
        live.checkpoint()
        assert sorted(ledger.rows) == list(range(15))


class Refusing(Ledger):
    """Refuses to prepare as long as it is told to."""

    def pre_commit(self, epoch: Epoch) -> Mapping[str, Any]:
        if self.failing:
            raise ConnectionError("not today")
        return super().pre_commit(epoch)


def test_the_transaction_of_a_failed_checkpoint_is_aborted_and_its_rows_come_with_the_next(
    spark: Any, tmp_path: Path
) -> None:
    tap, ledger, refusing = Tap(), Ledger(), Refusing()
    job = passing(tap, ledger)
    job.region("down", reads="left")(passed)
    job.sink("refusing", "down", refusing)
    with running(job, tmp_path, tolerable=5) as live:
        refusing.failing = True
        tap.give(5)
        live.settle()
        with pytest.raises(HoldfastError, match="not today"):
            live.completed(live.request())
        live.until(lambda: ledger.aborted == [1])
        refusing.failing = False
        tap.give(5)
        live.settle()
        assert promised(live.checkpoint()) == [2, 2]
        assert sorted(ledger.rows) == list(range(10))
        assert sorted(refusing.rows) == list(range(10))


@pytest.mark.parametrize("end", ["finish", "cancel"])
def test_rows_of_a_completed_checkpoint_are_not_lost_when_the_job_ends_before_the_commit(
    spark: Any, tmp_path: Path, end: str
) -> None:
    tap, ledger = Tap(), Ledger()
    deleting = {"retention": "delete-on-cancellation"}
    with running(passing(tap, ledger), tmp_path, **deleting) as live:
        ledger.failing = True
        if end == "finish":
            tap.end(5)
            live.until(lambda: ledger.refused >= 2)
            assert live.state == "RUNNING"
            ledger.failing = False
            assert live.until_over() == "FINISHED"
            assert sorted(ledger.rows) == list(range(5))
        else:
            tap.give(5)
            live.until(lambda: live.committed("left") == 0)
            taken = live.checkpoint()
            live.running.cancel()
            until(lambda: live.running.state.is_over)
            assert live.running.owing == ("ledger",)
            path = live.path(taken)
    assert ledger.aborted == []
    if end == "cancel":
        ledger.failing = False
        with running(passing(tap, ledger), tmp_path, restore=path) as live:
            assert sorted(ledger.rows) == list(range(5))


def test_plain_sinks_get_every_batch_at_once_and_no_segment_is_written_for_them(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tap = Tap()
    batches: dict[int, dict[int, int]] = {}

    def collect(rows: Any, batch: int) -> None:
        batches[batch] = {row["key"]: row["count"] for row in rows.collect()}

    job = one_region(tap, hf.sinks.console(rows=1))
    job.region("again", reads="a", output_mode="update")(counted)
    job.sink("collect", "again", hf.sinks.foreach_batch(collect))
    with running(job, tmp_path) as live:
        tap.give(5)
        tap.give(3)
        live.settle()
        changed = {key: n for key, n in counts(range(8)).items() if n != counts(range(5))[key]}
        assert batches == {0: counts(range(5)), 1: changed}
        assert not list((tmp_path / "work").rglob("segments"))
    said = capsys.readouterr().out
    assert "batch 0" in said
    assert "batch 1" in said
    assert "|key|count|" in said


# Every batch its own checkpoint


class Shelf(hf.sinks.TwoPhaseCommitSink):
    """Transactions are files in a folder: ``open/``, ``prepared/``, ``done/``."""

    key = ("n",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("open", "prepared", "done"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def begin(self, part: hf.sinks.Part) -> Mapping[str, Any]:
        return {"checkpoint": part.checkpoint, "name": part.name}

    def invoke(self, handle: Mapping[str, Any], rows: Any) -> None:
        with (self.folder / "open" / handle["name"]).open("a") as file:
            file.writelines(f"{n}\n" for n in rows.column("n").to_pylist())

    def pre_commit(self, handle: Mapping[str, Any]) -> None:
        (self.folder / "open" / handle["name"]).rename(self.folder / "prepared" / handle["name"])

    def commit(self, handle: Mapping[str, Any]) -> None:
        if (self.folder / "down").exists():
            raise ConnectionError("the store is away")
        if (found := self.folder / "prepared" / handle["name"]).exists():
            found.rename(self.folder / "done" / handle["name"])

    def abort(self, handle: Mapping[str, Any]) -> None:
        for name in ("open", "prepared"):
            (self.folder / name / handle["name"]).unlink(missing_ok=True)

    def pending(self, job_id: str, sink: str) -> list[Mapping[str, Any]]:
        names = [f.name for state in ("open", "prepared") for f in (self.folder / state).iterdir()]
        numbers = {name: hf.sinks.checkpoint_of(name, job_id, sink) for name in names}
        return [{"checkpoint": n, "name": name} for name, n in numbers.items() if n is not None]

    def rows(self) -> list[int]:
        return sorted(int(n) for f in (self.folder / "done").iterdir() for n in f.open())

    def prepared(self) -> int:
        return len(list((self.folder / "prepared").iterdir()))


EVERY_BATCH = {"holdfast.checkpoint.every-batch": "true"}


def test_when_every_batch_is_a_checkpoint_rows_are_not_staged_and_come_once(
    spark: Any, tmp_path: Path
) -> None:
    tap, shelf = Tap(), Shelf(tmp_path / "shelf")
    with running(passing(tap, shelf), tmp_path, **EVERY_BATCH) as live:
        tap.give(5, times=3)
        live.until(lambda: shelf.rows() == list(range(15)))
        assert not list((tmp_path / "work").rglob("*.parquet"))
        (shelf.folder / "down").touch()
        tap.give(5, times=2)
        live.until(lambda: live.committed("left") == 3 and shelf.prepared() > 0)
        live.until(lambda: live.running.commits.figures[0].failures >= 1)
        assert live.committed("left") == 3
    assert shelf.rows() == list(range(15))
    (shelf.folder / "down").unlink()
    with running(passing(tap, shelf), tmp_path, **EVERY_BATCH) as live:
        live.until(lambda: shelf.rows() == list(range(25)))
        assert shelf.prepared() == 0


def test_a_batch_that_was_not_staged_and_that_no_checkpoint_has_survives_a_restart_either_way(
    spark: Any, tmp_path: Path
) -> None:
    tap, shelf = Tap(), Shelf(tmp_path / "shelf")
    unwilling = {**EVERY_BATCH, "tolerable": 1000}
    job = passing(tap, shelf)
    refuse = Reluctant()
    job.on_snapshot(refuse)
    with running(job, tmp_path, **unwilling) as live:
        refuse.reluctant = True
        tap.give(5)
        live.until(lambda: live.committed("left") == 0 and shelf.prepared() > 0)
    assert shelf.rows() == []
    with running(passing(tap, shelf), tmp_path) as live:  # staged from now on
        live.until(lambda: shelf.rows() == list(range(5)))
        tap.give(5)
        live.settle()
        live.checkpoint()
        assert shelf.rows() == list(range(10))
    with running(passing(tap, shelf), tmp_path, **EVERY_BATCH) as live:
        tap.give(5)
        live.until(lambda: shelf.rows() == list(range(15)))
        last = Path(live.running.attempt.region("left"))
    # Spark forgets that it has committed the last batch, which a checkpoint covers.
    newest = max(int(f.name) for f in (last / "commits").iterdir() if f.name.isdigit())
    for name in (str(newest), f".{newest}.crc"):
        (last / "commits" / name).unlink(missing_ok=True)
    with running(passing(tap, shelf), tmp_path, **EVERY_BATCH) as live:
        tap.give(5)
        live.until(lambda: shelf.rows() == list(range(20)))
        assert shelf.prepared() == 0


class Reluctant:
    """A snapshot hook that fails checkpoints as long as it is told to."""

    __name__ = "reluctant"

    def __init__(self) -> None:
        self.reluctant = False

    def __call__(self, checkpoint: int) -> None:
        if self.reluctant:
            raise RuntimeError("not now")


def test_rows_are_not_lost_when_nobody_can_tell_whether_their_checkpoint_was_stored(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap, ledger = Tap(), Ledger()
    complete = CheckpointWriter.complete

    def stored_but_unanswered(writer: CheckpointWriter, metadata: CheckpointMetadata) -> None:
        complete(writer, metadata)
        raise StorageError("the answer was lost")

    def unreachable(writer: CheckpointWriter) -> None:
        raise StorageError("the storage is away")

    job = passing(tap, ledger)
    with monkeypatch.context() as patched, running(job, tmp_path, tolerable=9) as live:
        patched.setattr(CheckpointWriter, "complete", stored_but_unanswered)
        patched.setattr(CheckpointWriter, "abort", unreachable)
        tap.give(5)
        live.until(lambda: live.committed("left") == 0)
        live.request()
        until(lambda: live.running.state.is_over)
        assert live.state == "FAILED"
        assert "may be stored" in str(live.running.failure)
    assert ledger.aborted == []
    with running(passing(tap, ledger), tmp_path) as live:
        assert sorted(ledger.rows) == list(range(5))
