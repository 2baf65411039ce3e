# ruff: noqa: D102  the name of a test is its sentence
"""Rules of two-phase sinks about crashes: objects dropped, processes killed, between two calls."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest

from holdfast.testing.interruption import kill_at
from holdfast.testing.sinks_calls import (
    Commit,
    Life,
    Notes,
    Recovery,
    Task,
    drop_after,
    finish,
    getting_ready,
    kill_after,
    pickled,
)
from holdfast.testing.sinks_driving import TwoPhaseCommitDriving
from holdfast.testing.sinks_rows import Row, rule, some_rows

PARTS = 2
TASK = ["begin {}", "invoke {}.0", "invoke {}.1", "pre_commit {}"]
POINTS = [call.format(number) for number in range(PARTS) for call in TASK]
POINTS += ["stored", *(f"commit {number}" for number in range(PARTS))]
CRASHES = {"dropped": drop_after, "sigkill": kill_after}


class TwoPhaseCommitCrashes(TwoPhaseCommitDriving):
    """What is true after a crash between two calls, and then inside the recovery."""

    def life(self, checkpoint: int, rows: list[Row], notes: Path, parts: int = PARTS) -> Life:
        """An epoch of several parts."""
        share = len(rows) // parts
        tasks = [
            Task(self.part(checkpoint, n), self.batches(rows[n * share : (n + 1) * share]))
            for n in range(parts)
        ]
        return Life(pickled(self.make_sink()), tuple(tasks), Notes(notes / f"{checkpoint}"))

    @pytest.mark.parametrize("how", CRASHES)
    @pytest.mark.parametrize("point", POINTS)
    def test_a_crash_after_any_call_neither_loses_nor_repeats_rows(
        self, tmp_path: Path, point: str, how: str
    ) -> None:
        crash, seen = CRASHES[how], list[Row]()
        for again in itertools.count(1):
            rows = some_rows(100 * again, 8)
            life = self.life(2 * again, rows, tmp_path)
            recovery = Recovery(life.sink, life.notes)
            with rule(8, f"{how} after {point}, then after call {again} of the recovery"):
                crash(life, 1 + POINTS.index(point))
                died_again = crash(recovery, again)
                finish(recovery)
                seen += self._promised(life, rows)
                self.sees(seen)
                seen += self._go_on(2 * again + 1, life, rows, tmp_path)
                self.sees(seen)
            self.nothing_is_pending()
            if not died_again:
                return

    def _promised(self, life: Life, rows: list[Row]) -> list[Row]:
        return rows if life.notes.read() else []

    def _go_on(self, checkpoint: int, life: Life, rows: list[Row], notes: Path) -> list[Row]:
        """The next epoch: it has the rows that were not committed, and new ones."""
        again = [] if life.notes.read() else rows
        rows = again + some_rows(100 * rows[0][0], 4)
        finish(self.life(checkpoint, rows, notes))
        return rows

    def test_3_another_process_can_commit_and_a_third_one_again(self, tmp_path: Path) -> None:
        rows = some_rows(1, 8)
        life = self.life(1, rows, tmp_path)
        assert kill_after(life, 1 + POINTS.index("stored"))
        self.sees([])
        with rule(3, "after pre_commit any process can commit"):
            assert not kill_after(Commit(life.sink, life.notes), 100)
            self.sees(rows)
        with rule(4, "and another one may do it again"):
            assert not kill_after(Commit(life.sink, life.notes), 100)
            assert not kill_after(Recovery(life.sink, life.notes), 100)
            self.sees(rows)

    def test_3_a_process_killed_at_any_step_inside_a_call_loses_and_repeats_nothing(
        self, tmp_path: Path
    ) -> None:
        """Steps are calls that leave Python for files and sockets; some libraries hide theirs."""
        seen: list[Row] = []
        for epoch in itertools.count(1):
            rows = some_rows(100 * epoch, 4)
            life = self.life(epoch, rows, tmp_path, parts=1)
            step = 1 + (epoch - 1) * self.stride
            died = kill_at(partial(getting_ready, life), step)
            with rule(3, f"killed at step {step}"):
                finish(Recovery(life.sink, life.notes))
                seen += self._promised(life, rows)
                self.sees(seen)
            self.nothing_is_pending()
            if not died:
                return
