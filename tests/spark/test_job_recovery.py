"""From what a job goes on after damage: own query logs, the newest checkpoint, an older one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import StorageError
from holdfast.protocol.ladder import Source
from holdfast.runtime import recovering
from holdfast.runtime.failure_log import FailureLog
from holdfast.runtime.recovering import NothingToRestore
from holdfast.runtime.running import history_directory
from holdfast.runtime.sink_recovery import SinkLost
from holdfast.sinks import Epoch
from holdfast.sinks.write_ahead import WriteAhead
from tests.spark.jobs import (
    Live,
    counted,
    counts,
    final_state,
    passed,
    prepared,
    running,
    tree_of,
    visible,
)
from tests.spark.taps import Tap, drained

OPTIONS: dict[str, object] = {"inline": "0b", "retained": 3}


def job_of(tap: Tap, out: Path) -> hf.Job:
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    job.region("count", reads="left", output_mode="update")(counted)
    job.sink("files", "left", hf.sinks.files(out))
    job.sink("drain", "count", hf.sinks.foreach_batch(drained))
    return job


def run_a_while(tap: Tap, home: Path) -> Live:
    """Two checkpoints, and rows behind the second."""
    with running(job_of(tap, home / "out"), home, **OPTIONS) as live:
        for _ in range(2):
            tap.give(10, times=2)
            live.settle()
            live.checkpoint()
        tap.give(10)
        live.settle()
        return live


def lose_state(live: Live) -> None:
    for file in Path(live.running.attempt.region("count")).glob("state/0/*/*.*"):
        file.unlink()


def lose_offsets(live: Live) -> None:
    offsets = Path(live.running.attempt.region("left")) / "offsets"
    newest = max(int(file.name) for file in offsets.glob("[0-9]*"))
    (offsets / str(newest)).write_bytes(b"")


def lose_commit(live: Live) -> None:
    commits = Path(live.running.attempt.region("left")) / "commits"
    newest = max(int(file.name) for file in commits.glob("[0-9]*"))
    (commits / str(newest)).unlink()


def lose_seal(live: Live) -> None:
    live.running.attempt.storage.delete("attempt")


def lose_attempt(live: Live) -> None:
    shutil.rmtree(live.running.attempt.storage.locate(""))


def lose_identity(live: Live) -> None:
    live.running.work.storage.delete("job")


def cut_identity_short(live: Live) -> None:
    (Path(live.running.work.location) / "job").write_text('{"id"')


def cut_segment_short(live: Live) -> None:
    entries = Path(live.running.attempt.storage.locate("channels/left/log"))
    newest = max(entries.iterdir(), key=lambda file: int(file.name))
    newest.write_bytes(newest.read_bytes()[:9])


def cut_copies_short(live: Live) -> None:
    """What is only a copy, or only for people to see."""
    (Path(live.running.attempt.storage.locate("promised")) / "2").write_text("{")
    (Path(live.running.settings.history_dir) / live.running.job_id / "2.json").write_text("{")


@pytest.mark.parametrize(
    ("damage", "restored"),
    [
        (lose_state, 2),
        (lose_offsets, 2),
        (lose_commit, 2),
        (lose_seal, 2),
        (lose_attempt, 2),
        (lose_identity, None),
        (cut_identity_short, None),
        (cut_segment_short, 2),
        (cut_copies_short, None),
    ],
    ids=lambda item: item.__name__ if callable(item) else "",
)
def test_whatever_is_lost_at_work_every_row_counts_once(
    spark: Any, tmp_path: Path, damage: Callable[[Live], None], restored: int | None
) -> None:
    tap = Tap()
    damage(run_a_while(tap, tmp_path))
    with running(job_of(tap, tmp_path / "out"), tmp_path, **OPTIONS) as live:
        assert live.running.found.restored_from == restored
        tap.give(10)
        live.settle()
        live.checkpoint()
        assert final_state(spark, live) == counts(range(60))
        assert visible(tmp_path / "out") == dict.fromkeys(range(60), 1)


def test_a_resumed_job_reads_no_state_from_its_checkpoints(spark: Any, tmp_path: Path) -> None:
    tap = Tap()
    live = run_a_while(tap, tmp_path)
    taken = Path(live.running.store.location)
    for file in [*taken.rglob("shared/**/*"), *taken.rglob("chk-*/*")]:
        if file.is_file() and file.name != "_metadata":
            file.unlink()
    with running(job_of(tap, tmp_path / "out"), tmp_path, **OPTIONS) as live:
        assert live.running.found.restored_from is None
        tap.give(10)
        live.settle()
        assert final_state(spark, live) == counts(range(60))


def test_a_checkpoint_that_was_deleted_is_remembered_by_what_it_promised(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    live = run_a_while(tap, tmp_path)
    shutil.rmtree(live.checkpoints / "chk-2")
    lose_state(live)
    with running(job_of(tap, tmp_path / "out"), tmp_path, **OPTIONS) as live:
        assert live.running.found.restored_from == 1
        live.settle()
        live.checkpoint()
        assert final_state(spark, live) == counts(range(50))
        assert visible(tmp_path / "out") == dict.fromkeys(range(50), 1)


def test_however_often_a_job_goes_back_there_are_two_attempts_and_every_row_once(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    live = run_a_while(tap, tmp_path)
    shutil.rmtree(live.checkpoints / "chk-2")  # so that batches are run again, each time
    lose_state(live)
    with running(job_of(tap, tmp_path / "out"), tmp_path, **OPTIONS) as live:
        for _ in range(2):
            live.running.halt_all()
            live.running.revive_all(Source.CHECKPOINT)
            assert live.running.found.restored_from == 1
        newest = live.running.attempt.number
        kept = {path.name for path in (tmp_path / "work" / "job").glob("attempt-*")}
        assert kept == {f"attempt-{newest - 1}", f"attempt-{newest}"}
        live.settle()
        live.checkpoint()
        assert final_state(spark, live) == counts(range(50))
        assert visible(tmp_path / "out") == dict.fromkeys(range(50), 1)


def test_with_nothing_left_to_go_on_from_nothing_is_deleted_and_everything_named(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    live = run_a_while(tap, tmp_path)
    lose_state(live)
    for number in (1, 2):
        (live.checkpoints / f"chk-{number}" / "_metadata").write_text("{")
    before = tree_of(live.checkpoints)
    job = job_of(tap, tmp_path / "out")
    settings = {"execution.checkpointing.num-retained": 3}
    with pytest.raises(NothingToRestore) as refusal:
        prepared(job, tmp_path, settings)
    message = str(refusal.value)
    assert "checkpoint 1 cannot be read" in message
    assert "checkpoint 2 cannot be read" in message
    assert "--fresh" in message
    assert tree_of(live.checkpoints) == before
    history = history_directory(live.running.settings, live.running.work)
    [record] = FailureLog(history).all()
    assert (record.error, record.decision) == ("holdfast.NothingToRestore", "the job failed")


def test_a_full_disk_is_no_damage_and_no_checkpoint_is_passed_over(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise StorageError("cannot write: No space left on device")

    tap = Tap()
    lose_state(run_a_while(tap, tmp_path))
    with monkeypatch.context() as disk:
        disk.setattr(recovering, "restored", no_room)
        with pytest.raises(StorageError, match="No space left"):
            prepared(job_of(tap, tmp_path / "out"), tmp_path, {})
    with running(job_of(tap, tmp_path / "out"), tmp_path, **OPTIONS) as live:
        assert live.running.found.restored_from == 2


def test_a_start_afresh_is_not_undone_by_older_checkpoints(spark: Any, tmp_path: Path) -> None:
    tap = Tap()
    run_a_while(tap, tmp_path)
    other = Tap()
    with running(job_of(other, tmp_path / "new"), tmp_path, fresh=True, **OPTIONS) as live:
        other.give(10)
        live.settle()
        lose_state(live)
        fresh = live.running.attempt.number
    with pytest.raises(NothingToRestore):
        prepared(job_of(other, tmp_path / "new"), tmp_path, {})
    assert live.running.work.current().number == fresh  # type: ignore[union-attr]


# Sinks that keep rows: what a checkpoint has promised them is in no store until they commit


class Held(WriteAhead):
    """Writes into SQLite, but not while it is held: as if the process had died before."""

    def __init__(self, path: Path, held: bool = False) -> None:
        sink: Any = hf.sinks.sqlite(path, "rows")
        super().__init__(sink)
        self.path = path
        self.held = held

    def commit(self, epoch: Epoch, handle: Mapping[str, Any]) -> None:
        if self.held:
            raise ConnectionError("the store is away")
        super().commit(epoch, handle)

    def rows(self) -> list[int]:
        with closing(sqlite3.connect(self.path)) as connection:
            return [n for (n,) in connection.execute("SELECT n FROM rows ORDER BY n")]


def ahead_of(tap: Tap, sink: Held) -> hf.Job:
    job = job_of(tap, sink.path.parent / "out")
    job.sink("ahead", "left", sink)
    return job


def die_before_the_commit(tap: Tap, home: Path) -> Live:
    """Two checkpoints are complete; what the second has promised is not committed."""
    sink = Held(home / "rows.db")
    with running(ahead_of(tap, sink), home, **OPTIONS) as live:
        tap.give(10, times=2)
        live.settle()
        live.checkpoint()
        live.until(lambda: sink.rows() == list(range(20)))
        sink.held = True
        tap.give(10, times=2)
        live.settle()
        live.checkpoint()
    assert sink.rows() == list(range(20))
    return live


def lose_last_segment(live: Live) -> None:
    entries = Path(live.running.attempt.storage.locate("channels/left/log"))
    max(entries.iterdir(), key=lambda file: int(file.name)).unlink()


@pytest.mark.parametrize("damage", [lose_commit, lose_last_segment], ids=lambda item: item.__name__)
def test_rows_promised_to_a_write_ahead_sink_are_not_taken_for_written(
    spark: Any, tmp_path: Path, damage: Callable[[Live], None]
) -> None:
    tap = Tap()
    damage(die_before_the_commit(tap, tmp_path))
    sink = Held(tmp_path / "rows.db")
    with running(ahead_of(tap, sink), tmp_path, **OPTIONS) as live:
        assert live.running.found.restored_from == 2
        assert sink.rows() == list(range(40))
        tap.give(10)
        live.settle()
        live.checkpoint()
        live.until(lambda: sink.rows() == list(range(50)))
        assert final_state(spark, live) == counts(range(50))
    assert visible(tmp_path / "out") == dict.fromkeys(range(50), 1)


def test_if_the_checkpoint_with_these_rows_is_damaged_too_they_are_made_again(
    spark: Any, tmp_path: Path
) -> None:
    tap = Tap()
    live = die_before_the_commit(tap, tmp_path)
    (live.checkpoints / "chk-2" / "_metadata").write_text("{")
    lose_commit(live)
    sink = Held(tmp_path / "rows.db")
    # A reader that is run again comes after its producer, which has no room to wait for it.
    with running(ahead_of(tap, sink), tmp_path, **{**OPTIONS, "capacity": "1b"}) as live:
        assert live.running.found.restored_from == 1
        assert sink.rows() == list(range(40))
        live.settle()
        live.checkpoint()
        assert final_state(spark, live) == counts(range(40))
    assert visible(tmp_path / "out") == dict.fromkeys(range(40), 1)
    assert sink.rows() == list(range(40))


def test_a_sink_is_not_removed_before_it_has_what_it_was_promised(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tap = Tap()
    dead = die_before_the_commit(tap, tmp_path)
    with (
        pytest.raises(SinkLost, match="checkpoint 2 has promised"),
        running(job_of(tap, tmp_path / "out"), tmp_path, **OPTIONS),
    ):
        pass
    # Another job may do without it, and leaves alone what this one has pending.
    left = tmp_path / "out/_holdfast" / dead.running.job_id / "files/9/rows/left.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    taken = str(dead.checkpoints / "chk-2")
    other = {**OPTIONS, "restore": taken}
    with running(job_of(tap, tmp_path / "out"), tmp_path / "other", **other) as live:
        assert live.state == "RUNNING"
    assert "the job has no sink 'ahead' any more" in caplog.text
    assert "They are left alone" in caplog.text
    assert left.exists()
    sink = Held(tmp_path / "rows.db")
    with running(ahead_of(tap, sink), tmp_path, **OPTIONS):
        assert sink.rows() == list(range(40))
    with running(job_of(tap, tmp_path / "out"), tmp_path, **OPTIONS) as live:
        assert live.state == "RUNNING"
