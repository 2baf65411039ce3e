"""One epoch sink: what becomes of its transactions, and when its region waits; without Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkpoints.metadata import Transaction
from holdfast.errors import MissingFile
from holdfast.protocol.flow import Flow
from holdfast.protocol.graph import SinkUse
from holdfast.runtime.channels import Channel, Segment, encode_segment
from holdfast.runtime.commits import Commits
from holdfast.runtime.epochs import SinkEpochs
from holdfast.runtime.gates import Gates
from holdfast.runtime.settlements import Settlements
from holdfast.runtime.sink_recovery import SinkLost, SinkRecovery
from holdfast.runtime.work import Attempt
from holdfast.sinks import Epoch, Handle
from holdfast.storage import open_storage
from tests.services.processes import wait_until
from tests.unit.checkpoints import metadata_of

SIZE = 100
"""Of each segment."""

OTHER = "0" * 32
"""A job that has taken a checkpoint which is restored under another id."""


class Store:
    """An epoch sink that notes what is asked of it."""

    def __init__(self, keeps_rows: bool) -> None:
        self.keeps_rows = keeps_rows
        self.done: list[str] = []
        self.away = False
        self.others: list[Handle] = []

    def check(self, spark: Any, schema: Any) -> None:
        pass

    def pre_commit(self, epoch: Epoch) -> Handle:
        self.done.append(f"pre-commit {epoch.checkpoint}")
        return {"checkpoint": epoch.checkpoint}

    def commit(self, epoch: Epoch, handle: Handle) -> None:
        if self.away:
            raise ConnectionError("the store is away")
        batches = [segment.batch for segment in epoch.segments]
        self.done.append(f"commit {handle['checkpoint']} {batches}")

    def recover_and_commit(self, epoch: Epoch, handle: Handle) -> None:
        self.commit(epoch, handle)

    def abort(self, handle: Handle) -> None:
        self.done.append(f"abort {handle['checkpoint']}")

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        return self.others if job_id == OTHER else ()

    def describe(self, handle: Mapping[str, Any]) -> list[str]:
        return [f"part of {handle['checkpoint']}"]


class Part:
    """A region with some segments, its channel and its one sink."""

    def __init__(self, home: Path, batches: int, keeps_rows: bool = True) -> None:
        self.attempt = open_storage(home)
        self.channel = Channel("all", open_storage(home / "channels/all"))
        for batch in range(batches):
            entry = encode_segment(Segment(batch, f"{batch}-x", (("a.parquet", SIZE),)))
            self.channel.storage.publish(f"log/{batch}", entry)
        self.channel.recover(batches - 1)
        flow = Flow({"all": ()}, {"all": batches - 1}, {"all": {}})
        self.gates = Gates(flow, {"all": self.channel}, {}, lambda _: None)
        self.store = Store(keeps_rows)
        self.settlements = Settlements(self.attempt, "out")
        use = SinkUse("out", "all", self.store)
        self.sink = SinkEpochs(
            use, "id", 1, self.channel, self.gates, Settlements(self.attempt, "out")
        )
        nothing: Any = None
        self.sink.prepare(nothing, nothing)


def promised(number: int, first: int, end: int) -> Transaction:
    return Transaction("out", number, first, end, {"checkpoint": number})


def test_rows_that_are_gone_are_not_taken_for_committed(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=3)
    with pytest.raises(MissingFile, match="checkpoint 7 has promised to sink 'out'"):
        part.sink.recover([promised(7, 2, 4)], 4, 2, 7)
    assert part.store.done == []


def test_they_are_if_it_was_noted_before_they_went(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=3)
    part.settlements.record(7)
    part.sink.recover([promised(7, 2, 4)], 4, 2, 7)
    assert part.store.done == []


def test_rows_that_are_there_are_committed_again_and_that_is_noted(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=4)
    part.sink.recover([promised(7, 2, 4)], 4, 3, 7)
    assert part.store.done == ["commit 7 [2, 3]"]
    assert part.settlements.has(7)


def test_a_handle_that_is_enough_needs_no_rows(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=0, keeps_rows=False)
    part.sink.recover([promised(7, 2, 4)], 4, -1, 7)
    assert part.store.done == ["commit 7 []"]


def test_a_commit_is_noted_before_its_rows_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Part(tmp_path, batches=2)
    part.sink.recover([], 0, 1, 0)
    part.sink.pre_commit(1, 1)
    part.sink.promise(1)
    noted: list[bool] = []
    monkeypatch.setattr(part.gates, "sink_done", lambda *_: noted.append(part.settlements.has(1)))
    part.store.away = True
    with pytest.raises(ConnectionError):
        part.sink.commit(1)
    assert not part.settlements.has(1)
    part.store.away = False
    part.sink.commit(1)
    assert noted == [True]


def test_what_another_job_has_left_is_listed_and_left_alone(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=0)
    part.store.others = [{"checkpoint": 8}]
    part.sink.recover([], 0, -1, 0)
    assert part.sink.left_by(OTHER) == ["part of 8"]
    assert part.store.done == []


def test_a_batch_that_is_not_staged_is_named_after_the_next_checkpoint(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=0, keeps_rows=False)
    part.sink.recover([], 0, -1, 41)
    rows: Any = object()
    part.sink.write(0, rows)
    part.sink.fail(42)
    part.sink.pre_commit(43, 0)
    part.sink.promise(43)
    part.sink.commit(43)
    part.sink.write(1, rows)
    assert part.store.done == ["pre-commit 42", "commit 42 []", "pre-commit 44"]


def test_failed_checkpoints_are_forgotten_with_the_next_that_completes(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=1)
    part.sink.recover([], 0, 0, 0)
    for number in range(1, 100):
        part.sink.fail(number)
    part.sink.promise(98)
    assert part.sink._failed == {99}


def test_a_checkpoint_that_fails_while_it_waits_is_not_pre_committed(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=2)
    part.sink.recover([], 0, 1, 0)
    part.sink.pre_commit(1, 0)
    part.sink.promise(1)
    late = threading.Thread(target=part.sink.pre_commit, args=(2, 1), daemon=True)
    late.start()
    part.sink.fail(2)
    part.sink.commit(1)
    late.join(60)
    assert not late.is_alive()
    part.sink.pre_commit(3, 1)
    assert part.store.done == ["pre-commit 1", "commit 1 [0]", "pre-commit 3"]


# Sinks that were removed, jobs that were another


def recovery(part: Part, job_id: str = OTHER) -> SinkRecovery:
    """Of a checkpoint of that job which has promised rows to ``out`` and to ``gone``."""
    gone = Transaction("gone", 7, 0, 2, {"checkpoint": 7})
    base = metadata_of(OTHER, 7, 1, promised(7, 0, 2), gone)
    attempt = Attempt(1, part.attempt, None, None)
    return SinkRecovery(base, job_id, attempt, part.gates, 8)


def test_a_sink_that_was_promised_rows_is_not_removed_before_they_are_settled(
    tmp_path: Path,
) -> None:
    part = Part(tmp_path, batches=2)
    with pytest.raises(SinkLost, match="'gone' any more, but checkpoint 7") as refusal:
        recovery(part).refuse_lost([part.sink])
    assert "holdfast transactions commit" in str(refusal.value)
    Settlements(part.attempt, "gone").record(7)
    recovery(part).refuse_lost([part.sink])


def test_another_job_does_without_it_and_leaves_alone_what_is_not_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    part = Part(tmp_path, batches=2)
    part.store.others = [{"checkpoint": 8}]
    with caplog.at_level(logging.WARNING):
        recovery(part, "new").refuse_lost([part.sink])
        recovery(part, "new").recover([part.sink])
    assert "'gone' any more" in caplog.text
    assert "part of 8. They are left alone" in caplog.text
    assert part.store.done == ["commit 7 [0, 1]"]


def test_a_sink_that_keeps_rows_waits_for_batches_that_run_again(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=1)
    assert recovery(part).needs_what_runs_again(part.sink)
    for keeps_rows, batches in ((True, 2), (False, 1)):
        other = Part(tmp_path / f"{batches}", batches, keeps_rows)
        assert not recovery(other).needs_what_runs_again(other.sink)


# When its region waits


def waits(part: Part, capacity: int) -> bool:
    """Whether the region's next batch would wait for room."""
    return not part.gates._has_room("all", capacity)


def test_rows_pile_up_without_limit_only_while_the_sink_can_commit(tmp_path: Path) -> None:
    part = Part(tmp_path, batches=4)
    part.sink.recover([], 0, 3, 0)
    part.sink.pre_commit(1, 1)
    part.sink.promise(1)
    assert not waits(part, 0)
    part.store.away = True
    commits = Commits([part.sink])
    commits.start()
    tried = threading.Event()
    commits.ask(1, tried.set)
    assert tried.wait(60)
    assert waits(part, 4 * SIZE - 1)
    assert not waits(part, 4 * SIZE)
    going: list[float] = []
    waiting = part.gates.wait_for_room("all", SIZE)
    batch = threading.Thread(target=lambda: going.extend(waiting), daemon=True)
    batch.start()
    part.store.away = False
    commits.hurry(None, 60)
    batch.join(60)
    assert not batch.is_alive()
    assert sum(going) > 0
    commits.close()


@pytest.mark.parametrize("end", ["stop", "release"])
def test_a_region_that_waits_for_a_store_can_be_stopped(tmp_path: Path, end: str) -> None:
    part = Part(tmp_path, batches=2)
    part.sink.recover([], 0, 1, 0)
    part.sink.refused()
    going: list[float] = []

    def wait() -> None:
        for seconds in part.gates.wait_for_room("all", 0):
            going.append(seconds)

    batch = threading.Thread(target=wait, daemon=True)
    batch.start()
    wait_until(lambda: bool(going), "the region to wait")
    assert batch.is_alive()
    part.gates.stop() if end == "stop" else part.gates.release(["all"])
    batch.join(60)
    assert not batch.is_alive()
