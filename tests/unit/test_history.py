"""Statistics of checkpoints outlive whoever writes them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.protocol.records import FailureRecord
from holdfast.protocol.statistics import CheckpointFigures, Status
from holdfast.runtime.failure_log import FailureLog
from holdfast.runtime.history import LONGEST, History
from holdfast.storage.names import temporary_name


def kept(location: Path, *checkpoints: int, longest: int = LONGEST) -> History:
    history = History(str(location), longest)
    for number in checkpoints:
        history.begin(CheckpointFigures(number, 1.0, 1, "PERIODIC", True, False))
        history.completed(number, 2.0, f"/chk-{number}")
    return history


def test_what_a_dead_runner_was_writing_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    history = kept(tmp_path, 1)
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "1.json").write_text("{}")
    for place in (tmp_path, tmp_path / "failures"):
        (place / temporary_name()).write_text("{")
    history.delete_unfinished()
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert left == ["1.json", "failures/1.json"]


def numbers(history: History) -> list[int]:
    return [figures.id for figures in history.all()]


def files(location: Path) -> set[str]:
    return {path.name for path in location.iterdir()}


def test_what_cannot_be_read_is_left_out_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept(tmp_path, *range(1, 203))
    assert "block-1-100.jsonl" in files(tmp_path)
    block = (tmp_path / "block-1-100.jsonl").read_bytes()
    (tmp_path / "block-1-100.jsonl").write_bytes(block[:-9])
    (tmp_path / "150.json").write_text("{")
    (tmp_path / "151.json").write_text("[]")
    (tmp_path / "152.json").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        history = kept(tmp_path, *range(203, 310))
    assert "150.json" in caplog.text
    assert numbers(history) == [n for n in range(1, 310) if n not in (100, 150, 151, 152)]
    assert numbers(kept(tmp_path)) == numbers(history)


def test_only_the_newest_are_kept_in_memory_and_on_disk(tmp_path: Path) -> None:
    history = kept(tmp_path, *range(1, 1001), longest=250)
    assert 250 <= len(numbers(history)) < 450
    assert numbers(history)[-1] == 1000
    assert numbers(kept(tmp_path)) == numbers(history)
    assert len(files(tmp_path)) < 210


def test_the_newest_that_completed_is_kept_however_many_have_failed_since(tmp_path: Path) -> None:
    history = kept(tmp_path, *range(1, 151), longest=200)
    for number in range(151, 1001):
        history.begin(CheckpointFigures(number, 1.0, 1, "PERIODIC", True, False))
        history.failed(number, 2.0, "EXPIRED", "too late")
    for each in (history, kept(tmp_path)):
        latest = each.latest(Status.COMPLETED)
        assert latest is not None
        assert latest.id == 150
    assert len(numbers(history)) < 600


def test_a_file_that_has_become_part_of_a_block_is_not_read_twice(tmp_path: Path) -> None:
    kept(tmp_path, 1)
    single = (tmp_path / "1.json").read_bytes()
    kept(tmp_path, *range(2, 201))
    assert "1.json" not in files(tmp_path)
    (tmp_path / "1.json").write_bytes(single)  # as if the runner had died before it was deleted
    history = kept(tmp_path)
    assert numbers(history) == list(range(1, 201))
    history.delete_unfinished()
    assert "1.json" not in files(tmp_path)


def test_of_failures_the_newest_are_kept_and_their_numbers_go_on(tmp_path: Path) -> None:
    log = FailureLog(str(tmp_path), longest=3)
    for number in range(1, 6):
        assert log.next_number() == number
        log.add(FailureRecord(number, 1.0, None, "Recoverable", "", "E", "", ""))
        log.recovered(number, 2.0)
    log.recovered(1, 3.0)  # forgotten meanwhile
    for each in (log, FailureLog(str(tmp_path))):
        assert [record.number for record in each.all()] == [3, 4, 5]
        assert each.next_number() == 6
    assert len(files(tmp_path / "failures")) == 6
