# ruff: noqa: D102  the name of a test is its sentence
"""Rules of two-phase sinks with a key: rows replace those of the same key."""

from __future__ import annotations

import pickle
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from holdfast.sinks.two_phase import Part, TwoPhaseCommitSink
from holdfast.testing.interruption import dies
from holdfast.testing.sinks_calls import abort_all, over_json, pickled
from holdfast.testing.sinks_driving import TwoPhaseCommitDriving
from holdfast.testing.sinks_rows import Row, rule


class TwoPhaseCommitKeys(TwoPhaseCommitDriving):
    """The runtime gives a sink at most one row of a key in an epoch, and never a null key."""

    def replaced(self, rows: list[Row], checkpoint: int, number: int = 0) -> dict[str, Any]:
        """Write and pre-commit rows by key."""
        return self.written(rows, checkpoint, number, sink=self.make_keyed_sink())

    def commit_keyed(self, handle: dict[str, Any]) -> None:
        """What the driver does."""
        sink = self.make_keyed_sink()
        sink.commit(handle)
        sink.close()

    def test_7_rows_replace_those_of_the_same_key(self) -> None:
        with rule(7, "of every key the row of the newest epoch is visible"):
            self.commit_keyed(self.replaced([(1, "a"), (2, "b")], 1))
            self.sees([(1, "a"), (2, "b")])
            self.commit_keyed(self.replaced([(2, "c"), (3, "ü")], 2))
            self.sees([(1, "a"), (2, "c"), (3, "ü")])
            self.commit_keyed(self.replaced([(1, None), (3, "ü")], 3))
            self.sees([(1, None), (2, "c"), (3, "ü")])

    def test_7_the_old_row_is_visible_until_the_new_one_is_committed(self) -> None:
        self.commit_keyed(self.replaced([(1, "old"), (2, "kept")], 1))
        sink = self.make_keyed_sink()
        handle = sink.begin(self.part(2))
        with rule(7, "a row is replaced by the commit, not before"):
            sink.invoke(handle, self.batch([(1, "new")]))
            self.sees([(1, "old"), (2, "kept")])
            sink.pre_commit(handle)
            sink.close()
            self.sees([(1, "old"), (2, "kept")])
            sink.abort(over_json(handle))
            sink.close()
            self.sees([(1, "old"), (2, "kept")])
        with rule(8, "after an abort the same keys come again"):
            self.commit_keyed(self.replaced([(1, "newer")], 3))
            self.sees([(1, "newer"), (2, "kept")])

    def test_7_parts_with_other_keys_do_not_hinder_each_other(self) -> None:
        self.commit_keyed(self.replaced([(n, "old") for n in range(10)], 1))
        with rule(7, "transactions that are open at once touch different rows"):
            odd = self.replaced([(n, "odd") for n in range(1, 10, 2)], 2, number=0)
            even = self.replaced([(n, "even") for n in range(0, 10, 2)], 2, number=1)
            self.commit_keyed(even)
            self.commit_keyed(odd)
            self.sees((n, "odd" if n % 2 else "even") for n in range(10))

    def test_4_a_commit_that_was_done_does_not_bring_old_rows_back(self) -> None:
        first = self.replaced([(1, "old")], 1)
        self.commit_keyed(first)
        self.commit_keyed(self.replaced([(1, "new")], 2))
        with rule(4, "commit does nothing for a transaction that is committed already"):
            sink = self.make_keyed_sink()
            sink.commit(first)
            sink.recover_and_commit(first)
            sink.close()
            self.sees([(1, "new")])

    def test_7_a_second_try_ends_in_time_although_the_first_holds_its_keys(self) -> None:
        """An executor was lost after pre_commit, and Spark runs its task again elsewhere."""
        self.commit_keyed(self.replaced([(1, "old")], 1))
        self.replaced([(1, "lost")], 2)
        second, rows = self.part(2, token="bbbbbbbb"), self.batch([(1, "again")])
        with rule(7, "a task that waits for a lock gives up; the next checkpoint comes later"):
            assert not dies(partial(write_or_fail, pickled(self.make_keyed_sink()), second, rows))
            abort_all(self.make_keyed_sink())
            self.sees([(1, "old")])
            self.commit_keyed(self.replaced([(1, "again")], 3))
            self.sees([(1, "again")])
        self.nothing_is_pending()


def write_or_fail(sink: bytes, part: Part, rows: pa.RecordBatch) -> None:
    """What a task does; it aborts if it fails."""
    used: TwoPhaseCommitSink = pickle.loads(sink)
    handle = None
    try:
        handle = used.begin(part)
        used.invoke(handle, rows)
        used.pre_commit(handle)
    except Exception:
        with suppress(Exception):
            if handle is not None:
                used.abort(handle)
    used.close()
