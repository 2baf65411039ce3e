"""Commits that wait for their next try, and somebody who does not want to wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from holdfast.runtime import commits
from holdfast.runtime.commits import Commits, Tried, Try

PATIENCE = 60.0


class Slow:
    """A sink that commits when it is let, and fails as long as it is told to."""

    def __init__(self, uid: str = "out") -> None:
        self.uid = uid
        self.failing = True
        self.let = threading.Event()
        self.let.set()

    def commit(self, checkpoint: int) -> None:
        self.let.wait(PATIENCE)
        if self.failing:
            raise ConnectionError("away")

    def refused(self) -> None:
        pass


@contextmanager
def asked(*sinks: Slow) -> Iterator[Commits]:
    """Commits of checkpoint 7 whose first try is over."""
    made = Commits(cast(Any, sinks))
    made.start()
    tried = threading.Event()
    made.ask(7, tried.set)
    assert tried.wait(PATIENCE)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def nobody_tries_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "FIRST_PAUSE", 2 * PATIENCE)
    monkeypatch.setattr(commits, "LONGEST_PAUSE", 2 * PATIENCE)


def test_who_waits_for_the_next_try_makes_it_at_once_and_it_is_told_how_that_went() -> None:
    out, other = Slow(), Slow("other")
    with asked(out, other) as made:
        assert made.figures[0].in_a_row == 1
        assert made.hurry("out", PATIENCE) == [Try("out", 7, Tried.FAILED, "away")]
        assert [each.in_a_row for each in made.figures] == [2, 1]
        out.failing = other.failing = False
        assert [each.tried for each in made.hurry(None, PATIENCE)] == [Tried.COMMITTED] * 2
        assert made.wait(0)
        assert [(f.failures, f.in_a_row, f.error) for f in made.figures] == [
            (2, 0, None),
            (1, 0, None),
        ]


def test_where_nothing_waits_nothing_is_tried() -> None:
    out = Slow()
    out.failing = False
    with asked(out) as made:
        assert made.hurry(None, PATIENCE) == []


def test_a_try_that_takes_longer_goes_on() -> None:
    out = Slow()
    with asked(out) as made:
        out.let.clear()
        assert made.hurry(None, 0.0) == [Try("out", 7, Tried.GOING_ON, "away")]
        out.failing = False
        out.let.set()
        assert made.wait(PATIENCE)


def test_who_hurries_while_a_try_succeeds_is_told_so() -> None:
    out = Slow()
    with asked(out) as made:
        out.let.clear()
        made.hurry(None, 0.0)
        answers: list[list[Try]] = []
        second = threading.Thread(target=lambda: answers.append(made.hurry(None, PATIENCE)))
        second.start()
        out.failing = False
        out.let.set()
        second.join(PATIENCE)
        assert [each.tried for each in answers[0]] in ([], [Tried.COMMITTED])
