# ruff: noqa: D102  the name of a test is its sentence
"""The rules of ``WriteAheadSink``, as tests to run against your own; see ``testing.sinks``.

1. **All or nothing.** Rows and marker become visible together, or neither: the task may die at any
   moment, and reading its rows may fail.
2. **Once.** With a marker that is there nothing is written, whoever asks, from wherever.
3. **Whose.** Markers of other checkpoints, sinks and jobs are others.
4. **Objects.** As for two-phase sinks: pickled to tasks, closed in between, used again.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pytest

from holdfast.sinks.write_ahead import Marker, WriteAheadSink
from holdfast.testing.interruption import dies, kill_at, race
from holdfast.testing.sinks_calls import JOB, SINK, pickled
from holdfast.testing.sinks_rows import ODD_TEXTS, Row, SinkContract, rule, some_rows

Batches = Sequence[pa.RecordBatch]
ROWS = some_rows(1, 6)


class WriteAheadContract(SinkContract):
    """The numbers are those of the rules above. Override ``make_sink`` and ``visible``."""

    racers = 3

    def make_sink(self) -> WriteAheadSink:
        """A new object, on the same store within a test; it appends rows."""
        raise NotImplementedError

    def make_keyed_sink(self) -> WriteAheadSink:
        """One with ``key = ("id",)``, on the same store. Leave it out if there is none."""
        pytest.skip("the sink has no key")

    def write(
        self, rows: Sequence[Row], checkpoint: int = 1, sink: str = SINK, job: str = JOB
    ) -> None:
        """What the task does that writes an epoch."""
        batches = self.batches(rows) if rows else ()
        write(pickled(self.make_sink()), Marker(job, sink, checkpoint), batches)

    def test_1_rows_are_visible_when_write_returns_and_not_before(self) -> None:
        sink = self.make_sink()

        def watched() -> Iterator[pa.RecordBatch]:
            for rows in self.batches(ROWS):
                yield rows
                self.sees([])

        with rule(1, "all rows become visible at once"):
            sink.write(Marker(JOB, SINK, 1), watched())
            sink.close()
            self.sees(ROWS)

    def test_1_what_cannot_be_read_to_its_end_is_not_written(self) -> None:
        sink = self.make_sink()

        def failing() -> Iterator[pa.RecordBatch]:
            yield self.batch(ROWS)
            raise OSError("the rows cannot be read")

        with pytest.raises(OSError, match="cannot be read"):
            sink.write(Marker(JOB, SINK, 1), failing())
        sink.close()
        with rule(1, "neither rows nor marker are left when reading the rows fails"):
            self.sees([])
            self.write(ROWS)
            self.sees(ROWS)

    @pytest.mark.parametrize("batches", [0, 1, 2])
    def test_1_a_task_killed_between_batches_leaves_nothing(self, batches: int) -> None:
        for checkpoint in (1, 2):
            work = partial(
                write_and_die,
                pickled(self.make_sink()),
                Marker(JOB, SINK, checkpoint),
                self.batches(ROWS),
                batches,
            )
            with rule(1, f"killed after {batches} batches, neither rows nor marker are left"):
                assert dies(work)
                self.sees(ROWS * (checkpoint - 1))
                self.write(ROWS, checkpoint)
                self.sees(ROWS * checkpoint)

    def test_1_a_task_killed_at_any_step_has_written_all_or_nothing(self) -> None:
        """Steps are calls that leave Python for files and sockets; some libraries hide theirs."""
        seen: list[Row] = []
        for epoch in itertools.count(1):
            rows = some_rows(100 * epoch, 4)
            arguments = pickled(self.make_sink()), Marker(JOB, SINK, epoch), self.batches(rows)
            step = 1 + (epoch - 1) * self.stride
            died = kill_at(partial(getting_ready, *arguments), step)
            with rule(1, f"killed at step {step}"):
                self.sees_all_or_none(rows, seen)
                write(*arguments)
                seen += rows
                self.sees(seen)
            if not died:
                return

    def test_2_what_is_marked_is_not_written_again(self) -> None:
        with rule(2, "an epoch whose marker is there is not written again"):
            for _ in range(3):
                self.write(ROWS)
                self.sees(ROWS)

    def test_2_the_same_object_writes_an_epoch_once(self) -> None:
        sink = self.make_sink()
        with rule(2, "an epoch whose marker is there is not written again"):
            for _ in range(2):
                sink.write(Marker(JOB, SINK, 1), iter(self.batches(ROWS)))
                sink.close()
                self.sees(ROWS)

    def test_2_an_old_marker_is_known_behind_newer_ones(self) -> None:
        epochs = [some_rows(10 * number, 2) for number in range(4)]
        for number, rows in enumerate(epochs, 1):
            self.write(rows, number)
        with rule(2, "a restore from an older checkpoint commits its epoch once more"):
            self.write(epochs[0], 1)
            self.sees(row for rows in epochs for row in rows)

    def test_2_of_tasks_that_write_the_same_epoch_at_once_one_does(self) -> None:
        sink, batches = pickled(self.make_sink()), self.batches(ROWS)
        rounds = race(partial(write_in_race, sink, batches), self.racers, rounds=3)
        with rule(2, "the same epoch written at the same time is written once"):
            assert all("written" in told for told in rounds), f"nobody succeeded: {rounds}"
            self.sees(ROWS * 3)

    def test_3_other_checkpoints_sinks_and_jobs_have_markers_of_their_own(self) -> None:
        self.write(ROWS)
        others = [(2, SINK, JOB), (1, "out2", JOB), (1, "Out", JOB), (1, SINK, "f0" * 16)]
        others += [(1, "out_1", JOB), (1, "o", JOB), (1, "x" * 100, JOB)]
        with rule(3, "the marker names checkpoint, sink and job"):
            for count, (checkpoint, sink, job) in enumerate(others, 2):
                self.write(ROWS, checkpoint, sink, job)
                self.sees(ROWS * count)

    def test_3_an_epoch_without_rows_is_no_harm(self) -> None:
        with rule(3, "an epoch without rows is written like any other"):
            self.write([], 1)
            self.write(ROWS, 2)
            self.write([], 3)
            self.sees(ROWS)

    def test_3_an_epoch_that_was_left_out_by_hand_is_not_written_later(self) -> None:
        with rule(3, "an epoch without rows leaves its marker like any other"):
            write(pickled(self.make_sink()), Marker(JOB, SINK, 1), [])
            self.write(ROWS, 1)
            self.sees([])
            self.write(ROWS, 2)
            self.sees(ROWS)

    def test_4_a_sink_that_was_used_and_closed_can_be_pickled(self) -> None:
        sink = self.make_sink()
        sink.write(Marker(JOB, SINK, 1), iter(self.batches(ROWS)))
        sink.close()
        sink.close()
        with rule(4, "nothing that cannot be pickled is left when the sink is closed"):
            write(pickled(sink), Marker(JOB, SINK, 2), self.batches(ROWS))
            self.sees(ROWS * 2)

    def test_every_text_arrives_as_it_was(self) -> None:
        rows = list(enumerate(ODD_TEXTS))
        self.write(rows)
        self.sees(rows)

    def test_many_rows_arrive(self) -> None:
        rows = some_rows(0, 20_000)
        self.write(rows)
        self.sees(rows)

    def test_rows_replace_those_of_the_same_key(self) -> None:
        sink = self.make_keyed_sink()
        epochs: list[list[Row]] = [[(1, "a"), (2, "b")], [(2, "c"), (3, "ü")], [(1, None)]]
        for number, rows in enumerate(epochs, 1):
            sink.write(Marker(JOB, SINK, number), iter([self.batch(rows)]))
            sink.close()
        self.sees([(1, None), (2, "c"), (3, "ü")])
        with rule(2, "what is marked does not bring old rows back"):
            sink.write(Marker(JOB, SINK, 1), iter([self.batch(epochs[0])]))
            sink.close()
            self.sees([(1, None), (2, "c"), (3, "ü")])

    def test_a_description_is_one_line(self) -> None:
        assert len(self.make_sink().describe().splitlines()) == 1


def write(sink: bytes, marker: Marker, batches: Batches) -> None:
    """What the task does."""
    used: WriteAheadSink = pickle.loads(sink)
    try:
        used.write(marker, iter(batches))
    finally:
        used.close()


def write_and_die(sink: bytes, marker: Marker, batches: Batches, count: int) -> None:
    """Kill the process when the sink asks for one more batch than this."""

    def deadly() -> Iterator[pa.RecordBatch]:
        yield from batches[:count]
        os.kill(os.getpid(), signal.SIGKILL)

    pickle.loads(sink).write(marker, deadly())


def write_in_race(sink: bytes, batches: Batches, _racer: int, number: int) -> str:
    """Write the epoch of this round; one that is refused would be tried again."""
    try:
        write(sink, Marker(JOB, SINK, number + 1), batches)
    except Exception as error:
        return repr(error)
    return "written"


def getting_ready(sink: bytes, marker: Marker, batches: Batches) -> Callable[[], None]:
    """A write to be watched step by step; what is slow when used first is loaded before."""
    pickle.loads(sink)
    return partial(write, sink, marker, batches)
