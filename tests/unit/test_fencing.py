"""Epochs: a newer runner is noticed by the older one before it does anything more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import StorageError
from holdfast.runtime import fencing
from holdfast.runtime.fencing import Fenced, raise_epoch
from holdfast.runtime.running import RunningJob
from holdfast.storage import open_storage


def test_the_older_runner_is_told_who_has_replaced_it(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    older = raise_epoch(storage)
    older.check()
    newer = raise_epoch(storage)
    newer.check()
    with pytest.raises(Fenced, match="another runner") as caught:
        older.check()
    assert caught.value.ids["newer"] == newer.number == older.number + 1
    assert caught.value.ids["host"] == fencing.host()


def test_a_runner_that_was_replaced_twice_is_told_although_old_epochs_are_removed(
    tmp_path: Path,
) -> None:
    storage = open_storage(tmp_path)
    first = raise_epoch(storage)
    for _ in range(3):
        last = raise_epoch(storage)
    assert len(storage.list("epochs")) == 2
    with pytest.raises(Fenced):
        first.check()
    last.check()


def test_of_two_that_start_at_the_same_moment_one_replaces_the_other(tmp_path: Path) -> None:
    class Racing:
        """Lets another runner in between looking and publishing, once."""

        def __init__(self) -> None:
            self.storage = open_storage(tmp_path)
            self.others: list[fencing.Fence] = []

        def __getattr__(self, name: str) -> object:
            return getattr(self.storage, name)

        def publish(self, path: str, data: bytes) -> None:
            if not self.others:
                self.others.append(raise_epoch(self.storage))
            self.storage.publish(path, data)

    racing = Racing()
    fence = raise_epoch(racing)  # type: ignore[arg-type]
    assert fence.number == racing.others[0].number + 1
    fence.check()
    with pytest.raises(Fenced):
        racing.others[0].check()


def test_a_runner_of_another_machine_is_waited_for_until_it_has_left(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    storage.publish("epochs/1", json.dumps({"host": "elsewhere", "pid": 1, "id": "x"}).encode())
    fence = raise_epoch(storage)
    assert fence.is_shared
    fence.wait_for_predecessor(patience=0.0)
    storage.publish("epochs/1.left", b"")
    fence.wait_for_predecessor(patience=60.0)  # returns at once
    fence.leave()
    assert not raise_epoch(storage).is_shared


def test_a_dead_runner_of_this_machine_is_not_waited_for(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    raise_epoch(storage)
    assert not raise_epoch(storage).is_shared


def test_a_record_that_somebody_deleted_is_published_again(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    raise_epoch(storage)
    mine = raise_epoch(storage)
    for info in storage.list("epochs"):
        storage.delete(info.path)
    hidden = raise_epoch(storage)  # it cannot know of anybody
    assert hidden.number < mine.number
    mine.check()
    with pytest.raises(Fenced):
        hidden.check()
    assert raise_epoch(storage).number == mine.number + 1


def test_a_damaged_record_stops_nobody_and_its_runner_is_waited_for(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    storage.publish("epochs/4", b'{"host": "el')
    fence = raise_epoch(storage)
    assert (fence.number, fence.is_shared) == (5, True)


@pytest.mark.parametrize("is_shared", [True, False])
def test_storage_that_does_not_answer_says_nothing_about_other_runners(is_shared: bool) -> None:
    def check() -> None:
        raise StorageError("the NameNode is away")

    job: Any = SimpleNamespace(fence=SimpleNamespace(check=check, is_shared=is_shared))
    assert RunningJob.has_replaced_another(job) is is_shared


def test_a_runner_that_was_replaced_has_replaced_nobody(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    older = replace(raise_epoch(storage), is_shared=True)
    job: Any = SimpleNamespace(fence=older)
    assert RunningJob.has_replaced_another(job)
    raise_epoch(storage)
    assert not RunningJob.has_replaced_another(job)
