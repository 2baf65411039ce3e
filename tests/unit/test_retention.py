"""Which checkpoints and which shared files may go."""

from __future__ import annotations

import pytest

from holdfast.protocol.retention import SharedFiles, subsumed


def test_the_newest_are_retained_and_the_oldest_go_first() -> None:
    assert subsumed([7, 3, 5, 4], [], 2) == [3, 4]


@pytest.mark.parametrize("retained", [1, 2, 3])
def test_as_many_as_are_retained_are_all_kept(retained: int) -> None:
    assert subsumed(range(retained), [], retained) == []
    assert subsumed([], [], retained) == []


def test_one_that_cannot_be_read_is_kept_until_enough_newer_ones_can() -> None:
    assert subsumed([2, 5], [4], 2) == []
    assert subsumed([2, 5, 6], [4], 2) == [2, 4]
    assert subsumed([5], [4], 2) == []
    assert subsumed([], [4], 1) == []


def test_the_last_checkpoint_is_always_kept() -> None:
    assert subsumed([9], [], 1) == []


def test_a_file_of_one_checkpoint_goes_with_it() -> None:
    shared = SharedFiles({1: ["a", "b"]})
    assert shared.release(1) == {"a", "b"}
    assert shared.used == set()


def test_a_file_stays_until_the_last_checkpoint_that_uses_it_is_gone() -> None:
    shared = SharedFiles({1: ["a"], 2: ["a", "b"], 3: ["a"]})
    assert shared.release(1) == set()
    assert shared.release(2) == {"b"}
    assert shared.release(3) == {"a"}


def test_a_checkpoint_that_fails_takes_no_file_of_an_older_one_with_it() -> None:
    shared = SharedFiles({1: ["a"]})
    shared.hold(2, ["a", "new"])
    assert shared.release(2) == {"new"}
    assert shared.used == {"a"}


def test_a_file_held_by_a_checkpoint_in_flight_survives_the_end_of_its_owner() -> None:
    shared = SharedFiles({1: ["a"]})
    shared.hold(2, ["a"])
    assert shared.release(1) == set()


def test_a_checkpoint_may_be_released_in_any_order() -> None:
    shared = SharedFiles({1: ["a"], 2: ["a"]})
    assert shared.release(2) == set()
    assert shared.release(1) == {"a"}


def test_files_may_be_held_little_by_little_and_again() -> None:
    shared = SharedFiles()
    shared.hold(1, ["a"])
    shared.hold(1, ["a", "b"])
    assert shared.release(1) == {"a", "b"}


def test_what_was_released_is_not_given_up_again() -> None:
    shared = SharedFiles({1: ["a"]})
    shared.release(1)
    assert shared.release(1) == set()
    assert shared.release(99) == set()


def test_a_file_that_was_given_up_may_be_used_anew() -> None:
    shared = SharedFiles({1: ["a"]})
    shared.release(1)
    shared.hold(2, ["a"])
    assert shared.used == {"a"}
    assert shared.orphans(["a", "left"]) == {"left"}


def test_after_a_crash_only_files_of_completed_checkpoints_are_known() -> None:
    shared = SharedFiles({4: ["a"], 5: ["a", "b"]})
    assert shared.orphans(["a", "b", "of-6", "of-7"]) == {"of-6", "of-7"}
    assert shared.release(4) == set()


def test_the_callers_collections_stay_the_callers() -> None:
    mine = {"a"}
    shared = SharedFiles({1: mine})
    shared.hold(1, ["b"])
    assert mine == {"a"}
