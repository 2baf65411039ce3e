# ruff: noqa: D102  the name of a test is its sentence
"""The rules of sinks, as tests to run against your own. Without Spark; they need pytest.

Subclass in a test file, say how to make your sink and what a reader of the store sees::

    class TestMySink(TwoPhaseCommitContract):
        @pytest.fixture(autouse=True)
        def store(self, tmp_path):          # empty, another one for each test
            self.path = tmp_path

        def make_sink(self):                # rows with the columns id (long) and text (string)
            return MySink(self.path)

        def visible(self):
            return [(row["id"], row["text"]) for row in read(self.path)]

The sink must be in a module that other processes can import, as for Spark's executors.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from holdfast.testing.sinks_calls import JOB, SINK, abort_all, over_json, pickled
from holdfast.testing.sinks_crashes import TwoPhaseCommitCrashes
from holdfast.testing.sinks_keys import TwoPhaseCommitKeys
from holdfast.testing.sinks_rows import ODD_TEXTS, Row, rule, some_rows
from holdfast.testing.sinks_write_ahead import WriteAheadContract

__all__ = ["Row", "TwoPhaseCommitContract", "WriteAheadContract"]

ROWS = some_rows(1, 6)
OTHERS = [
    *(("f0" * 16, SINK), (JOB, "out2"), (JOB, "out_x"), (JOB, "out-x"), (JOB, "out_1")),
    *((JOB, "out.1"), (JOB, "Out"), (JOB, "o"), (JOB, "x" * 100)),
]
"""Jobs and sinks whose names are easily taken for each other."""


class TwoPhaseCommitContract(TwoPhaseCommitCrashes, TwoPhaseCommitKeys):
    """The numbers are those of the rules in ``holdfast.sinks.two_phase``.

    Tests with crashes are in ``sinks_crashes``, those of sinks with a key in ``sinks_keys``.
    """

    def test_1_a_sink_that_was_used_and_closed_can_be_pickled(self) -> None:
        sink = self.make_sink()
        handle = self.written(ROWS, sink=sink)
        with rule(1, "nothing that cannot be pickled is left when the sink is closed"):
            sink = pickle.loads(pickled(sink))
            sink.commit(handle)
            sink.close()
            pickled(sink)
        self.sees(ROWS)

    def test_1_a_closed_sink_can_be_used_again_by_another_thread(self) -> None:
        sink = self.make_sink()
        sink.close()
        sink.close()
        handle = self.written(ROWS, sink=sink)

        def commit() -> None:
            sink.commit(handle)
            sink.close()

        with rule(1, "a closed sink opens what it needs again"), ThreadPoolExecutor(1) as thread:
            thread.submit(commit).result()
        self.written(some_rows(10, 2), checkpoint=2, sink=sink)
        self.sees(ROWS)

    def test_2_a_handle_is_a_dictionary_of_json_values_with_its_checkpoint(self) -> None:
        sink = self.make_sink()
        handle = sink.begin(self.part(7))
        with rule(2, "a handle survives being written as JSON"):
            assert over_json(handle) == dict(handle), "it is not the same afterwards"
            assert json.dumps(dict(handle)).isprintable(), "it should be readable"
            assert handle.get("checkpoint") == 7, "it lacks the number of its checkpoint"
        sink.abort(handle)
        sink.close()

    @pytest.mark.parametrize("winner", [0, 1])
    def test_2_of_two_tries_of_a_part_the_one_that_counts_is_committed(self, winner: int) -> None:
        tries = [self.written(ROWS, token=token) for token in ("aaaaaaaa", "bbbbbbbb")]
        with rule(2, "two tries of one part have two names"):
            assert tries[0] != tries[1], "they have the same handle"
            abort_all(self.make_sink(), but=tries[winner])
            self.sees([])
            self.commit(tries[winner])
            self.sees(ROWS)
        self.nothing_is_pending()

    def test_2_a_try_that_goes_on_although_it_was_aborted_elsewhere_does_no_harm(self) -> None:
        slow = self.make_sink()
        handle = slow.begin(self.part(1, token="aaaaaaaa"))
        slow.invoke(handle, self.batch(ROWS[:3]))
        winner = self.written(ROWS, token="bbbbbbbb")
        abort_all(self.make_sink(), but=winner)
        with suppress(Exception):  # it may be told, and it may not
            slow.invoke(handle, self.batch(ROWS[3:]))
            slow.pre_commit(handle)
        slow.close()
        with rule(2, "a task that finished and was not needed can be told from the other"):
            abort_all(self.make_sink(), but=winner)
            self.commit(winner)
            self.sees(ROWS)
        self.nothing_is_pending()

    def test_3_nothing_is_visible_before_commit(self) -> None:
        sink = self.make_sink()
        handle = sink.begin(self.part(1))
        with rule(3, "rows are not visible before commit"):
            self.sees([])
            for rows in self.batches(ROWS):
                sink.invoke(handle, rows)
                self.sees([])
            sink.pre_commit(handle)
            self.sees([])
            sink.close()
            self.sees([])

    def test_3_rows_survive_the_end_of_their_task(self) -> None:
        handle = self.written(ROWS)
        with rule(3, "after pre_commit another object can commit, from the handle alone"):
            self.commit(handle)
            self.sees(ROWS)

    def test_3_prepared_rows_survive_the_end_of_the_store(self) -> None:
        handle = self.written(ROWS)
        self.restart_store()
        with rule(3, "after pre_commit the store's server may die and come back"):
            assert self.pending() == [handle], "the transaction is not listed any more"
            self.commit(handle)
            self.sees(ROWS)
        self.restart_store()
        with rule(3, "what is committed stays"):
            self.sees(ROWS)

    def test_3_every_text_arrives_as_it_was(self) -> None:
        rows = list(enumerate(ODD_TEXTS))
        self.commit(self.written(rows))
        with rule(3, "rows arrive as they were given"):
            self.sees(rows)

    def test_3_many_rows_arrive(self) -> None:
        rows = some_rows(0, 20_000)
        sink = self.make_sink()
        handle = sink.begin(self.part(1))
        for at in range(0, len(rows), 1000):
            sink.invoke(handle, self.batch(rows[at : at + 1000]))
        sink.pre_commit(handle)
        sink.close()
        self.commit(handle)
        with rule(3, "all rows of a transaction are committed"):
            self.sees(rows)

    def test_4_a_commit_that_was_done_is_not_done_again(self) -> None:
        handle = self.written(ROWS)
        sink = self.make_sink()
        with rule(4, "commit does nothing for a transaction that is committed already"):
            for _ in range(2):
                sink.commit(handle)
                self.sees(ROWS)
            sink.close()
            self.commit(handle)
            self.sees(ROWS)

    def test_4_recovery_commits_what_was_not_committed_and_nothing_twice(self) -> None:
        handle = self.written(ROWS)
        with rule(4, "recover_and_commit is commit after a restart, also of what is committed"):
            for _ in range(3):
                sink = self.make_sink()
                sink.recover_and_commit(handle)
                sink.close()
                self.sees(ROWS)

    def test_4_an_old_transaction_is_not_committed_again_behind_newer_ones(self) -> None:
        handles = []
        for checkpoint, row in enumerate(ROWS, 1):
            handles.append(self.written([row], checkpoint))
            self.commit(handles[-1])
        with rule(4, "a restore from an older checkpoint commits its transactions once more"):
            sink = self.make_sink()
            sink.recover_and_commit(handles[0])
            sink.close()
            self.sees(ROWS)

    @pytest.mark.parametrize("state", ["begun", "invoked", "pre-committed"])
    @pytest.mark.parametrize("by", ["the same object", "another object"])
    def test_5_abort_leaves_nothing(self, state: str, by: str) -> None:
        sink = self.make_sink()
        handle = sink.begin(self.part(1))
        if state != "begun":
            sink.invoke(handle, self.batch(ROWS))
        if state == "pre-committed":
            sink.pre_commit(handle)
        if by == "another object":
            sink.close()
            sink = self.make_sink()
        with rule(5, "abort forgets the rows, in the task that failed or anywhere"):
            sink.abort(over_json(handle))
            sink.close()
            self.sees([])
        self.nothing_is_pending()
        with rule(8, "the same rows come again with the next checkpoint"):
            self.commit(self.written(ROWS, checkpoint=2))
            self.sees(ROWS)

    def test_5_abort_of_what_the_store_does_not_know_does_nothing(self) -> None:
        kept, aborted = self.written(ROWS, number=0), self.written(ROWS, number=1)
        with rule(5, "abort may come any number of times"):
            for _ in range(2):
                sink = self.make_sink()
                sink.abort(aborted)
                sink.abort(aborted)
                sink.close()
            assert self.pending() == [kept], "another transaction was touched"
            self.commit(kept)
            self.sees(ROWS)

    def test_6_pending_lists_what_is_open_as_begin_has_named_it(self) -> None:
        with rule(6, "pending lists what is neither committed nor aborted, and nothing else"):
            assert self.pending() == [], "something is listed before the first transaction"
            handles = [self.written(ROWS, number=n, checkpoint=c) for c in (9, 10) for n in (0, 1)]
            assert in_order(self.pending()) == in_order(handles), "not the handles of begin"
            self.commit(handles[0])
            assert in_order(self.pending()) == in_order(handles[1:]), "after a commit"
            abort_all(self.make_sink(), but=handles[1])
            assert self.pending() == [handles[1]], "after two aborts"
            self.commit(handles[1])
        self.nothing_is_pending()
        self.sees(ROWS * 2)

    def test_6_pending_does_not_list_what_belongs_to_others(self) -> None:
        mine = self.written(ROWS)
        others = {other: self.written(ROWS, owner=other) for other in OTHERS}
        with rule(6, "pending lists transactions of this job and sink only"):
            assert self.pending() == [mine], "those of others are listed"
            for owner, handle in others.items():
                assert self.pending(*owner) == [handle], f"of sink {owner[1]!r}"
        abort_all(self.make_sink())
        with rule(6, "the transactions of others go on"):
            for owner, handle in others.items():
                assert self.pending(*owner) == [handle], f"of sink {owner[1]!r}"
                self.commit(handle)
            self.sees(ROWS * len(others))

    def test_7_the_parts_of_an_epoch_are_independent(self) -> None:
        parts = [some_rows(10 * number, 3) for number in range(3)]
        handles = [self.written(rows, number=number) for number, rows in enumerate(parts)]
        with rule(7, "each part is committed or aborted by itself"):
            self.commit(handles[1])
            self.sees(parts[1])
            sink = self.make_sink()
            sink.abort(handles[0])
            sink.close()
            self.sees(parts[1])
            self.commit(handles[2])
            self.sees(parts[1] + parts[2])

    def test_7_epochs_follow_each_other(self) -> None:
        epochs = [some_rows(10 * number, 4) for number in range(5)]
        sink = self.make_sink()
        with rule(7, "rows of one epoch after the other appear, in one object"):
            for number, rows in enumerate(epochs):
                handle = self.written(rows, checkpoint=number + 1, sink=sink)
                sink.commit(handle)
                sink.close()
                self.sees([row for seen in epochs[: number + 1] for row in seen])

    def test_a_description_is_one_line_also_of_what_is_gone(self) -> None:
        handle = self.written(ROWS)
        for _ in range(2):
            sink = self.make_sink()
            described = sink.describe(handle)
            sink.close()
            assert described.strip(), "there is no description"
            assert len(described.splitlines()) == 1, "one line, please"
            self.commit(handle)


def in_order(handles: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(handle, sort_keys=True) for handle in handles)
