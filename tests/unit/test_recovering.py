"""From what a job goes on when files at work are missing, cut short or behind; without Spark."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoints.metadata import CheckpointMetadata, Transaction, encode
from holdfast.checkpoints.store import CheckpointStore
from holdfast.querylog.snapshots import newest_commit
from holdfast.runtime.attempts import base_of
from holdfast.runtime.channels import Channel, Segment, encode_segment
from holdfast.runtime.completion import Hooks
from holdfast.runtime.history import History
from holdfast.runtime.life import Place
from holdfast.runtime.promises import Promises
from holdfast.runtime.recovering import Found, find_attempt
from holdfast.runtime.settlements import Settlements, carry_over
from holdfast.runtime.unstaged import Unstaged
from holdfast.runtime.work import Attempt, WorkDirectory
from holdfast.sinks import Epoch
from holdfast.storage import create_tree, open_storage
from tests.compat.samples import NEWEST, unpack
from tests.unit.checkpoints import metadata_of
from tests.unit.server_jobs import settings

SAMPLE = "aggregation.hashmap"
"""A query log with more than two batches."""


class Ahead:
    """A sink that keeps rows; nobody writes to it here."""

    keeps_rows = True

    def check(self, spark: Any, schema: Any) -> None:
        pass

    def pre_commit(self, epoch: Epoch) -> Mapping[str, Any]:
        raise NotImplementedError

    def commit(self, epoch: Epoch, handle: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def recover_and_commit(self, epoch: Epoch, handle: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def abort(self, handle: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def pending(self, job_id: str, sink: str) -> Sequence[Mapping[str, Any]]:
        return ()

    def describe(self, handle: Mapping[str, Any]) -> list[str]:
        return []


class Home:
    """A job of one region and one sink that does not run."""

    def __init__(self, path: Path) -> None:
        job = hf.Job("views")
        job.source("clicks", hf.sources.generator(rows_per_batch=1))
        job.region("all", reads="clicks")(lambda rows: rows)
        job.sink("ahead", "all", Ahead())
        self.graph = job.graph()
        self.path = path
        self.work = WorkDirectory(str(path / "work"), "views")
        self.attempt = self.work.begin(None)
        self.location = f"{self.work.location}/checkpoints"

    def place(self) -> Place:
        nothing: Any = None
        return Place(
            self.graph,
            settings(),
            nothing,
            self.work,
            nothing,
            CheckpointStore(self.location),
            History(str(self.path / "history")),
            Hooks(),
        )

    def found(self, attempt: Attempt | None = None, may_use_own: bool = True) -> Found:
        return find_attempt(self.place(), attempt or self.attempt, may_use_own=may_use_own)

    def metadata(self, number: int, cut: int, *transactions: Transaction) -> CheckpointMetadata:
        return metadata_of(
            self.work.job_id, number, cut, *transactions, attempt=self.attempt.number
        )

    def complete(self, metadata: CheckpointMetadata) -> None:
        promises = Promises(self.attempt.storage)
        promises.record(metadata)
        CheckpointStore(self.location).begin(metadata.id).complete(metadata)
        promises.settle(metadata.id)

    def run(self) -> int:
        """The region has a query log and all its segments; returns its last batch."""
        log = Path(self.attempt.region("all"))
        log.parent.mkdir(parents=True)
        shutil.copytree(unpack(f"{NEWEST}/{SAMPLE}", self.path / "sample"), log)
        newest = newest_commit(str(log))
        assert newest is not None
        for batch in range(newest.batch + 1):
            entry = encode_segment(Segment(batch, f"{batch}-x", ()))
            self.attempt.storage.publish(f"channels/all/log/{batch}", entry)
        return newest.batch

    def file(self, path: str) -> Path:
        return Path(self.attempt.storage.locate(path))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def promised(number: int, first: int, end: int) -> Transaction:
    return Transaction("ahead", number, first, end, {"checkpoint": number})


def test_a_query_log_behind_its_own_checkpoint_is_not_gone_on_with(home: Home) -> None:
    last = home.run()
    home.complete(home.metadata(1, last))
    assert home.found().restored_from is None
    (Path(home.attempt.region("all")) / "commits" / str(last)).unlink()
    assert home.found().restored_from == 1


def test_what_a_damaged_checkpoint_includes_is_run_again_from_an_older_one(home: Home) -> None:
    last = home.run()
    home.complete(home.metadata(1, last - 1))
    home.complete(home.metadata(2, last))
    (Path(home.location) / "chk-2/_metadata").write_text("{")
    (Path(home.attempt.region("all")) / "commits" / str(last)).unlink()
    restored = home.found()
    assert restored.restored_from == 1
    assert (Path(restored.attempt.storage.locate("replay/all")) / str(last)).exists()


@pytest.mark.parametrize("damage", ["missing", "cut short"])
def test_rows_that_a_commit_still_needs_are_not_taken_for_committed(
    home: Home, damage: str
) -> None:
    last = home.run()
    home.complete(home.metadata(1, last, promised(1, last, last + 1)))
    entry = home.file(f"channels/all/log/{last}")
    entry.unlink() if damage == "missing" else entry.write_bytes(entry.read_bytes()[:9])
    assert home.found().restored_from == 1


def test_rows_that_are_known_to_be_committed_need_not_be_there(home: Home) -> None:
    last = home.run()
    home.complete(home.metadata(1, last, promised(1, last, last + 1)))
    Settlements(home.attempt.storage, "ahead").record(1)
    home.file(f"channels/all/log/{last}").unlink()
    assert home.found().restored_from is None


def test_staged_rows_that_no_checkpoint_covers_must_be_there(home: Home) -> None:
    last = home.run()
    home.complete(home.metadata(1, last - 1))
    assert home.found().restored_from is None
    home.file(f"channels/all/log/{last}").write_text("{")
    assert home.found().restored_from == 1


def test_a_transaction_that_is_all_there_is_of_its_rows_may_be_damaged(home: Home) -> None:
    last = home.run()
    home.complete(home.metadata(1, last - 1))
    home.file(f"channels/all/log/{last}").unlink()
    Unstaged(open_storage(home.file("channels/all")), "ahead").record(last, {"checkpoint": 2})
    assert home.found() == Found(home.attempt)
    home.file(f"channels/all/unstaged/ahead/{last}").write_text('{"check')
    assert home.found().restored_from == 1


def test_a_promise_that_is_cut_short_does_not_matter_while_its_checkpoint_is_whole(
    home: Home,
) -> None:
    last = home.run()
    home.complete(home.metadata(1, last - 1))
    home.complete(home.metadata(2, last))
    home.file("promised/2").write_text("{")
    assert home.found() == Found(home.attempt)
    home.file("promised/2").unlink()
    assert home.found() == Found(home.attempt)


def test_if_both_copies_are_damaged_an_older_checkpoint_has_to_do_and_it_is_said(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    last = home.run()
    home.complete(home.metadata(1, last - 1))
    home.complete(home.metadata(2, last))
    home.file("promised/2").write_text("{")
    (Path(home.location) / "chk-2/_metadata").write_text("{")
    with caplog.at_level(logging.WARNING):
        assert home.found().restored_from == 1
    assert "will be written again" in caplog.text


@pytest.mark.parametrize("damage", ["", "{"])
def test_what_an_attempt_was_restored_from_may_be_damaged(home: Home, damage: str) -> None:
    home.complete(home.metadata(1, -1))
    restored = home.found(may_use_own=False)
    assert restored.restored_from == 1
    home.attempt = restored.attempt
    assert home.found() == Found(restored.attempt)
    home.file("restored").write_text(damage)
    again = home.found()
    assert again.restored_from == 1
    assert again.attempt.number == restored.attempt.number + 1


def test_batches_that_are_to_be_run_again_are_not_behind_and_may_be_damaged(home: Home) -> None:
    home.complete(home.metadata(1, -1))
    home.attempt = home.found(may_use_own=False).attempt
    replay = encode(home.metadata(2, 5))
    home.attempt.storage.publish("replay/base", replay)
    assert home.found() == Found(home.attempt)
    home.file("replay/base").write_bytes(replay[:-9])
    assert home.found().restored_from == 1


def test_without_any_checkpoint_query_logs_that_did_not_help_are_tried_again(home: Home) -> None:
    last = home.run()
    assert home.found(may_use_own=False) == Found(home.attempt)
    (Path(home.attempt.region("all")) / "offsets" / str(last)).write_bytes(b"")
    assert home.found(may_use_own=False).attempt.number == home.attempt.number + 1


def test_a_restored_attempt_knows_what_is_settled(home: Home) -> None:
    home.complete(home.metadata(1, -1))
    Settlements(home.attempt.storage, "gone").record(1)
    restored = home.found(may_use_own=False).attempt
    assert Settlements(restored.storage, "gone").has(1)
    assert not Settlements(restored.storage, "gone").has(2)


# Its parts


def test_only_the_newest_settlement_is_kept_and_it_tells_of_older_ones(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    Settlements(storage, "out").record(3)
    settled = Settlements(storage, "out")
    settled.record(5)
    settled.record(7)
    assert [info.path for info in storage.list("settled")] == ["settled/out/7"]
    assert [settled.has(number) for number in (5, 7, 8)] == [True, True, False]
    assert not Settlements(storage, "other").has(1)
    tree = create_tree(tmp_path / "new", seal="seal")
    carry_over(storage, tree)
    tree.write("seal", b"")
    tree.publish()
    assert Settlements(open_storage(tmp_path / "new"), "out").has(7)


def test_a_promise_counts_if_its_checkpoint_was_stored(home: Home) -> None:
    promises = Promises(home.attempt.storage)
    promises.record(home.metadata(1, 0))
    assert base_of(home.attempt, {}) is None
    found = base_of(home.attempt, {}, damaged=[1])
    assert found is not None
    assert found.id == 1
    promises.settle(1)
    promises.record(home.metadata(2, 3))
    found = base_of(home.attempt, {})
    assert found is not None
    assert found.id == 1


def test_the_entry_of_a_segment_that_nobody_needs_may_be_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = open_storage(tmp_path)
    for batch in range(3):
        storage.publish(f"log/{batch}", encode_segment(Segment(batch, f"{batch}-x", ())))
        storage.publish(f"segments/{batch}-x/part.parquet", b"rows")
    (tmp_path / "log/0").write_text('{"folder": "0-x", "fil')
    channel = Channel("all", storage)
    with caplog.at_level(logging.WARNING):
        channel.recover(1)
    assert "log/0" in caplog.text
    assert channel.batches() == [1]
    left = [info.path for info in storage.list()]
    assert left == ["log/1", "segments/1-x/part.parquet"]
