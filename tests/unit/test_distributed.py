"""Sweeps: what a sink has left behind goes, what a successor has prepared stays."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.runtime.fencing import Fenced, raise_epoch
from holdfast.sinks import Epoch, Handle, Part, TwoPhaseCommitSink, files
from holdfast.sinks.distributed import Distributed
from holdfast.sinks.kafka.sink import KafkaSink, kafka
from holdfast.sinks.mysql import sink as mysql_sink
from holdfast.sinks.mysql.sink import MySqlSink, mysql
from holdfast.sinks.postgres.session import Server
from holdfast.sinks.postgres.sink import PostgresSink, postgres
from holdfast.storage import open_storage

NOBODY: Any = None


class Board(TwoPhaseCommitSink):
    """Transactions are notes on a board that all runners of the job see."""

    def __init__(self, *numbers: int) -> None:
        self.notes = [self.note(number) for number in numbers]

    def note(self, number: int, token: str = "left") -> dict[str, Any]:
        return {"checkpoint": number, "name": f"{number}-{token}"}

    def begin(self, part: Part) -> Handle:
        raise NotImplementedError

    def invoke(self, handle: Handle, rows: Any) -> None:
        raise NotImplementedError

    def pre_commit(self, handle: Handle) -> None:
        raise NotImplementedError

    def commit(self, handle: Handle) -> None:
        raise NotImplementedError

    def abort(self, handle: Handle) -> None:
        self.notes.remove(dict(handle))

    def pending(self, job_id: str, sink: str) -> Sequence[Handle]:
        return list(self.notes)


def epoch(checkpoint: int, **more: Any) -> Epoch:
    return Epoch("job", 1, "out", checkpoint, (), NOBODY, NOBODY, **more)


def test_an_epoch_can_be_given_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(epoch(5))) == epoch(5)


def test_an_epoch_aborts_what_is_left_of_it_and_of_earlier_ones_and_nothing_later() -> None:
    board = Board(3, 5, 7)
    Distributed(board).pre_commit(epoch(5))
    assert board.notes == [board.note(7)]


def test_a_runner_that_was_replaced_while_it_wrote_aborts_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(tmp_path)
    fence, board = raise_epoch(storage), Board()
    theirs = board.note(5, "successor")

    def a_long_time(*_: Any) -> list[Handle]:
        raise_epoch(storage)
        board.notes.append(theirs)  # a batch that is not staged may get the same number
        return [board.note(5, "ours")]

    monkeypatch.setattr(Distributed, "_write", a_long_time)
    with pytest.raises(Fenced):
        Distributed(board).pre_commit(epoch(5, batch=object(), check=fence.check))
    assert board.notes == [theirs]


def test_tasks_that_failed_or_ran_twice_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()

    def twice(*_: Any) -> list[Handle]:
        board.notes += [board.note(5, "counts"), board.note(5, "again")]
        return [board.note(5, "counts")]

    monkeypatch.setattr(Distributed, "_write", twice)
    handle = Distributed(board).pre_commit(epoch(5, batch=object()))
    assert board.notes == handle["parts"] == [board.note(5, "counts")]


def test_staged_files_of_a_later_checkpoint_stay(tmp_path: Path) -> None:
    staging = tmp_path / "_holdfast/job/out"
    for number in (3, 5, 7):
        (staging / f"{number}/rows").mkdir(parents=True)
    sink = files(tmp_path)
    sink.pre_commit(epoch(5))
    assert [handle["checkpoint"] for handle in sink.pending("job", "out")] == [7]


# Looking at a job that runs


def test_describing_a_transaction_leaves_the_connection_of_the_sink_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = postgres("postgresql://me:secret@db/shop", "t")
    assert isinstance(sink, PostgresSink)
    in_use = sink._session = cast(Any, SimpleNamespace(close=lambda: pytest.fail("closed")))
    monkeypatch.setattr(Server, "connect", lambda _: pytest.fail("the server was asked"))
    (told,) = Distributed(sink).describe({"checkpoint": 7, "parts": [{"gid": "holdfast_x"}]})
    assert told == "holdfast_x: table t, database shop at db"
    assert sink._session is in_use


def test_kafka_is_not_asked_about_a_transaction_of_a_job_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KafkaSink, "_told", lambda *_: pytest.fail("Kafka was asked"))
    sink = kafka("broker:9092", "orders")
    assert isinstance(sink, KafkaSink)
    told = sink.describe({"base": "team-out", "parts": 2, "checkpoint": 7, "job_id": "a"})
    assert [line.rpartition(" ")[2] for line in told] == ["team-out-0", "team-out-1"]


# Transactions that the store does not know


def forgetful_postgres(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, Any]]:
    sink = postgres("postgresql://me@db/shop", "t")
    assert isinstance(sink, PostgresSink)
    session = SimpleNamespace(finish=lambda verb, gid: False, close=lambda: None)
    monkeypatch.setattr(PostgresSink, "_connected", lambda _: session)
    return sink, {"checkpoint": 7, "gid": "gone"}


def forgetful_mysql(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, Any]]:
    sink = mysql("mysql://me@db/shop", "t")
    assert isinstance(sink, MySqlSink)
    monkeypatch.setattr(MySqlSink, "_controlling", lambda _: None)
    monkeypatch.setattr(mysql_sink, "finish", lambda *_: False)
    return sink, {"checkpoint": 7, "owner": "me", "part": "gone"}


@pytest.mark.parametrize("forgetful", [forgetful_postgres, forgetful_mysql])
def test_a_transaction_that_is_unknown_at_its_first_commit_is_an_error_that_is_told(
    forgetful: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink, handle = forgetful(monkeypatch)
    sink.recover_and_commit(handle)  # another process may have committed it
    assert caplog.records == []
    sink.commit(handle)
    (told,) = caplog.records
    assert told.levelno == logging.ERROR
    for words in ("checkpoint 7", "gone", "rows are lost", "db"):
        assert words in told.message
    sink.commit(handle)  # the answer to the first try may have got lost
    assert len(caplog.records) == 1
