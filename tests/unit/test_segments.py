"""Which segments of a channel may go, and how much of it is unread."""

from __future__ import annotations

from holdfast.protocol.segments import deletable, unread_bytes


def test_segments_that_the_slowest_reader_has_read_may_go() -> None:
    assert deletable(range(10), {"fast": 8, "slow": 3}, {}, ()) == [0, 1, 2]


def test_the_segment_at_a_readers_position_stays() -> None:
    assert deletable([4, 5], {"reader": 4}, {}, ()) == []
    assert deletable([4, 5], {"reader": 5}, {}, ()) == [4]


def test_rows_that_a_sink_has_not_committed_stay() -> None:
    assert deletable(range(6), {"reader": 6}, {"sink": 2}, ()) == [0, 1]
    assert deletable(range(6), {}, {"sink": 2, "other": 4}, ()) == [0, 1]


def test_segments_that_a_checkpoint_is_copying_stay() -> None:
    assert deletable(range(5), {"reader": 5}, {}, {1, 3}) == [0, 2, 4]


def test_a_channel_without_anybody_keeps_everything() -> None:
    assert deletable(range(3), {}, {}, ()) == []


def test_a_reader_that_has_not_begun_keeps_everything() -> None:
    assert deletable(range(3), {"fast": 3, "new": 0}, {}, ()) == []


def test_what_may_go_comes_oldest_first() -> None:
    assert deletable({9, 2, 5}, {"reader": 10}, {}, ()) == [2, 5, 9]


def test_unread_is_what_the_slowest_reader_has_before_it() -> None:
    sizes = {3: 10, 4: 20, 5: 40}
    assert unread_bytes(sizes, {"fast": 6, "slow": 4}) == 60
    assert unread_bytes(sizes, {"only": 6}) == 0


def test_nobody_reads_so_nothing_is_unread() -> None:
    assert unread_bytes({1: 10}, {}) == 0
