from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.spark.file_tasks import Limits, Piece, share_out
from holdfast.spark.steering import DataFile

MB = 1 << 20
LIMITS = Limits(most_bytes=128 * MB, open_cost=4 * MB, parallelism=4)


def files(*sizes: int) -> list[DataFile]:
    return [DataFile(f"/f{number}", size) for number, size in enumerate(sizes)]


def test_no_file_is_no_task() -> None:
    assert share_out([], LIMITS) == []


def test_a_small_file_is_one_task() -> None:
    assert share_out(files(10), LIMITS) == [[Piece(DataFile("/f0", 10), 0, 10)]]


def test_a_few_small_files_keep_all_cores_busy() -> None:
    assert sorted(map(len, share_out(files(*[10] * 5), LIMITS))) == [1, 1, 1, 2]


def test_many_small_files_share_few_tasks() -> None:
    tasks = share_out(files(*[1000] * 60), LIMITS)
    assert [len(task) for task in tasks] == [15] * 4


def test_opening_counts_as_work() -> None:
    # 400 files cost as much as reading 1600 MB, which is more than four tasks may have.
    assert len(share_out(files(*[1] * 400), LIMITS)) == 13


def test_a_big_file_is_cut() -> None:
    tasks = share_out(files(1000 * MB), LIMITS)
    assert [piece.length for (piece,) in tasks] == [128 * MB] * 7 + [104 * MB]


def test_a_file_of_middle_size_is_cut_for_the_cores() -> None:
    tasks = share_out(files(100 * MB), LIMITS)
    assert [piece.length for (piece,) in tasks] == [26 * MB, 26 * MB, 26 * MB, 22 * MB]


def test_an_empty_file_is_not_overlooked() -> None:
    assert share_out(files(0), LIMITS) == [[Piece(DataFile("/f0", 0), 0, 0)]]


limits = st.builds(
    Limits,
    most_bytes=st.integers(1, 500),
    open_cost=st.integers(0, 100),
    parallelism=st.integers(1, 9),
)


@given(st.lists(st.integers(1, 2000), max_size=30), limits)
def test_every_byte_is_read_by_exactly_one_task(sizes: list[int], limits: Limits) -> None:
    given_files = files(*sizes)
    tasks = share_out(given_files, limits)
    assert all(tasks)
    pieces = sorted(
        (piece.file.location, piece.start, piece.length) for task in tasks for piece in task
    )
    for file in given_files:
        own = [(start, length) for location, start, length in pieces if location == file.location]
        ends = [start + length for start, length in own]
        assert [start for start, _ in own] == [0, *ends[:-1]]
        assert ends[-1] == file.size


@given(st.lists(st.integers(1, 2000), max_size=30), limits)
def test_no_core_is_idle_while_there_are_files(sizes: list[int], limits: Limits) -> None:
    assert len(share_out(files(*sizes), limits)) >= min(limits.parallelism, len(sizes))
