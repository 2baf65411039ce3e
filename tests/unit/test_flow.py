"""Barriers at the gates of a few regions, step by step.

``tests/property/test_flow.py`` checks what holds for every graph and every interleaving.
"""

from __future__ import annotations

from holdfast.protocol.flow import NOTHING, Alignment, Cut, Flow

ALIGNED, UNALIGNED, PASSING = Alignment.ALIGNED, Alignment.UNALIGNED, Alignment.PASSING


def _join(left: int = 0, right: int = 0, join: int = 0) -> Flow:
    """Two sources and a region that reads both; each has committed batch 0 unless told."""
    return Flow(
        {"left": (), "right": (), "join": ("left", "right")},
        {"left": left, "right": right, "join": join},
        {"left": {}, "right": {}, "join": {"left": 0, "right": 0}},
    )


def _line() -> Flow:
    """Three regions in a row; each has committed and read batch 0."""
    return Flow(
        {"a": (), "b": ("a",), "c": ("b",)},
        {"a": 0, "b": 0, "c": 0},
        {"a": {}, "b": {"a": 1}, "c": {"b": 1}},
    )


def _read(flow: Flow, left: int, right: int, now: float = 0.0) -> list[Cut]:
    batch = flow.last_batch("join") + 1
    return flow.committed("join", batch, {"left": left, "right": right}, now)


def _regions(cuts: list[Cut]) -> list[str]:
    return [cut.region for cut in cuts]


def test_a_single_region_is_cut_at_its_last_batch_at_once() -> None:
    flow = Flow({"only": ()}, {"only": 6}, {"only": {}})
    [cut] = flow.trigger(1, ALIGNED, 5.0)
    assert (cut.region, cut.checkpoint, cut.batch) == ("only", 1, 6)
    assert (cut.start_delay, cut.alignment, cut.unaligned) == (0.0, 0.0, False)


def test_a_job_that_has_done_nothing_is_cut_before_its_first_batch() -> None:
    flow = _join(NOTHING, NOTHING, NOTHING)
    cuts = flow.trigger(1, ALIGNED, 0.0)
    assert _regions(cuts) == ["left", "right", "join"]
    assert {cut.batch for cut in cuts} == {NOTHING}


def test_a_channel_is_held_at_its_barrier_until_the_last_barrier_is_reached() -> None:
    flow = _join(left=2, right=4)
    assert _regions(flow.trigger(1, ALIGNED, 0.0)) == ["left", "right"]
    flow.committed("left", 9, {}, 1.0)
    flow.committed("right", 9, {}, 1.0)
    assert (flow.readable("join", "left"), flow.readable("join", "right")) == (3, 5)
    assert _read(flow, 3, 2) == []
    assert flow.readable("join", "left") == 3
    [cut] = _read(flow, 3, 5)
    assert cut.batch == 2
    assert cut.positions == cut.barriers == {"left": 3, "right": 5}
    assert (flow.readable("join", "left"), flow.readable("join", "right")) == (10, 10)


def test_a_channel_without_a_barrier_is_read_on_while_another_is_held() -> None:
    flow = Flow(
        {"a": (), "b": ("a",), "join": ("a", "b")},
        {"a": 0, "b": NOTHING, "join": NOTHING},
        {"a": {}, "b": {}, "join": {}},
    )
    assert _regions(flow.trigger(1, ALIGNED, 0.0)) == ["a"]
    flow.committed("a", 1, {}, 0.0)
    assert flow.readable("join", "a") == 1
    flow.committed("join", 0, {"a": 1, "b": 0}, 0.0)
    [cut] = flow.committed("b", 0, {"a": 1}, 0.0)
    assert cut.region == "b"
    assert flow.readable("join", "b") == 1


def test_a_region_that_has_read_everything_needs_no_further_batch_to_be_cut() -> None:
    flow = _line()
    assert _regions(flow.trigger(1, ALIGNED, 0.0)) == ["a", "b", "c"]


def test_the_barrier_follows_the_commit_down_the_line() -> None:
    flow = _line()
    flow.committed("a", 1, {}, 0.0)
    assert _regions(flow.trigger(1, ALIGNED, 0.0)) == ["a"]
    assert _regions(flow.committed("b", 1, {"a": 2}, 1.0)) == ["b"]
    [cut] = flow.committed("c", 1, {"b": 2}, 2.0)
    assert cut.barriers == {"b": 2}


def test_an_empty_batch_moves_the_cut_but_no_barrier() -> None:
    flow = _line()
    flow.committed("a", 1, {}, 0.0)
    flow.trigger(1, ALIGNED, 0.0)
    assert flow.committed("b", 1, {"a": 1}, 0.0) == []
    [cut] = flow.committed("b", 2, {"a": 2}, 0.0)
    assert (cut.batch, cut.barriers) == (2, {"a": 2})


def test_alignment_lasts_from_the_first_barrier_reached_to_the_last() -> None:
    flow = _join(left=2, right=2)
    flow.trigger(1, ALIGNED, 10.0)
    _read(flow, 1, 1, now=11.0)
    _read(flow, 3, 1, now=12.0)
    [cut] = _read(flow, 3, 3, now=17.0)
    assert (cut.start_delay, cut.alignment) == (0.0, 5.0)


def test_the_start_delay_ends_with_the_first_barrier_that_arrives() -> None:
    flow = Flow(
        {"a": (), "b": ("a",), "c": (), "join": ("b", "c")},
        {"a": 1, "b": 0, "c": 0, "join": 0},
        {"a": {}, "b": {"a": 1}, "c": {}, "join": {"b": 1, "c": 0}},
    )
    flow.trigger(1, ALIGNED, 10.0)
    [cut_b] = flow.committed("b", 1, {"a": 2}, 13.0)
    [cut] = flow.committed("join", 1, {"b": 2, "c": 1}, 19.0)
    assert (cut_b.start_delay, cut_b.alignment) == (0.0, 0.0)
    assert (cut.start_delay, cut.alignment) == (0.0, 0.0)


def test_in_a_line_the_start_delay_grows_with_every_region() -> None:
    flow = _line()
    flow.committed("a", 1, {}, 0.0)
    flow.trigger(1, ALIGNED, 10.0)
    [cut_b] = flow.committed("b", 1, {"a": 2}, 13.0)
    [cut_c] = flow.committed("c", 1, {"b": 2}, 18.0)
    assert (cut_b.start_delay, cut_c.start_delay) == (0.0, 3.0)
    assert (cut_b.alignment, cut_c.alignment) == (0.0, 0.0)


def test_each_checkpoint_measures_its_own_alignment() -> None:
    flow = _join(left=0, right=0)
    flow.trigger(1, ALIGNED, 0.0)
    _read(flow, 1, 0, now=1.0)
    _read(flow, 1, 1, now=8.0)
    flow.committed("left", 1, {}, 8.0)
    flow.committed("right", 1, {}, 8.0)
    flow.trigger(2, ALIGNED, 9.0)
    [cut] = _read(flow, 2, 2, now=12.0)
    assert cut.alignment == 0.0


def test_checkpoints_in_flight_are_passed_one_after_the_other() -> None:
    flow = _join(left=0, right=0)
    flow.trigger(1, ALIGNED, 0.0)
    for region in ("left", "right"):
        flow.committed(region, 1, {}, 0.0)
    flow.trigger(2, ALIGNED, 0.0)
    flow.committed("left", 2, {}, 0.0)
    assert flow.readable("join", "left") == 1
    assert [cut.checkpoint for cut in _read(flow, 1, 1)] == [1]
    assert flow.readable("join", "left") == 2
    assert [cut.checkpoint for cut in _read(flow, 2, 2)] == [2]
    assert flow.readable("join", "left") == 3


def test_one_commit_may_end_several_checkpoints_the_oldest_first() -> None:
    flow = _join(left=0, right=0)
    cuts = [c for n in (1, 2, 3) for c in flow.trigger(n, ALIGNED, 0.0)]
    assert set(_regions(cuts)) == {"left", "right"}
    assert [cut.checkpoint for cut in _read(flow, 1, 1)] == [1, 2, 3]


def test_an_aborted_checkpoint_holds_nothing_and_cuts_nobody() -> None:
    flow = _join(left=1, right=1)
    flow.trigger(1, ALIGNED, 0.0)
    flow.committed("left", 5, {}, 0.0)
    assert flow.readable("join", "left") == 2
    flow.abort(1)
    assert flow.readable("join", "left") == 6
    assert _read(flow, 6, 2) == []


def test_the_next_checkpoint_is_not_disturbed_by_one_that_was_aborted() -> None:
    flow = _join(left=1, right=1)
    flow.trigger(1, ALIGNED, 0.0)
    _read(flow, 2, 0, now=1.0)
    flow.abort(1)
    flow.committed("left", 2, {}, 2.0)
    flow.trigger(2, ALIGNED, 3.0)
    assert flow.readable("join", "left") == 3
    _read(flow, 3, 0, now=4.0)
    [cut] = _read(flow, 3, 2, now=6.0)
    assert (cut.checkpoint, cut.alignment) == (2, 2.0)


def test_a_newer_checkpoint_in_flight_holds_when_the_older_one_is_aborted() -> None:
    flow = _join(left=1, right=1)
    flow.trigger(1, ALIGNED, 0.0)
    flow.committed("left", 3, {}, 0.0)
    flow.trigger(2, ALIGNED, 0.0)
    flow.committed("left", 7, {}, 0.0)
    flow.abort(1)
    assert flow.readable("join", "left") == 4


def test_to_abort_a_checkpoint_that_is_unknown_or_over_does_nothing() -> None:
    flow = _line()
    flow.trigger(1, ALIGNED, 0.0)
    flow.abort(1)
    flow.abort(99)
    assert flow.readable("b", "a") == 1


def test_an_unaligned_barrier_overtakes_at_once_and_what_it_overtook_is_in_flight() -> None:
    flow = _join(left=2, right=4)
    cuts = flow.trigger(1, UNALIGNED, 0.0)
    assert _regions(cuts) == ["left", "right", "join"]
    assert cuts[2].unaligned
    assert cuts[2].in_flight == {"left": range(3), "right": range(5)}
    assert not cuts[0].unaligned
    assert flow.readable("join", "right") == 5


def test_an_unaligned_cut_is_the_last_batch_that_was_committed() -> None:
    flow = _line()
    flow.committed("a", 3, {}, 0.0)
    flow.committed("b", 1, {"a": 2}, 0.0)
    cuts = {cut.region: cut for cut in flow.trigger(1, UNALIGNED, 0.0)}
    assert (cuts["b"].batch, cuts["b"].in_flight) == (1, {"a": range(2, 4)})
    assert (cuts["c"].batch, cuts["c"].in_flight) == (0, {"b": range(1, 2)})


def test_a_checkpoint_that_aligns_for_too_long_turns_unaligned_where_it_is() -> None:
    flow = _join(left=2, right=4)
    flow.trigger(1, ALIGNED, 0.0)
    _read(flow, 3, 1, now=1.0)
    [cut] = flow.overtake(1, 4.0)
    assert cut.unaligned
    assert (cut.batch, cut.alignment) == (1, 3.0)
    assert cut.in_flight == {"left": range(3, 3), "right": range(1, 5)}
    assert flow.committed("left", 3, {}, 5.0) == []
    assert flow.readable("join", "left") == 4


def test_turning_unaligned_carries_the_barrier_through_all_regions_behind() -> None:
    flow = _line()
    flow.committed("a", 1, {}, 0.0)
    flow.trigger(1, ALIGNED, 0.0)
    assert _regions(flow.overtake(1, 1.0)) == ["b", "c"]


def test_regions_that_were_cut_aligned_stay_so() -> None:
    flow = _line()
    flow.committed("a", 1, {}, 0.0)
    flow.trigger(1, ALIGNED, 0.0)
    [cut_b] = flow.committed("b", 1, {"a": 2}, 0.0)
    [cut_c] = flow.overtake(1, 1.0)
    assert (cut_b.unaligned, cut_c.unaligned) == (False, True)


def test_only_the_checkpoint_that_is_late_turns_unaligned() -> None:
    flow = _join(left=2, right=4)
    flow.trigger(1, ALIGNED, 0.0)
    flow.overtake(1, 1.0)
    flow.trigger(2, ALIGNED, 2.0)
    flow.committed("left", 7, {}, 2.0)
    assert flow.readable("join", "left") == 3


def test_what_is_over_aborted_or_not_aligned_cannot_turn() -> None:
    flow = _join(left=2, right=4)
    flow.trigger(1, ALIGNED, 0.0)
    flow.abort(1)
    assert flow.overtake(1, 1.0) == []
    flow.trigger(2, PASSING, 1.0)
    assert flow.overtake(2, 2.0) == []
    [cut] = _read(flow, 3, 5)
    assert (cut.checkpoint, cut.unaligned) == (2, False)


def test_passing_holds_nothing_and_cuts_when_the_last_barrier_was_passed() -> None:
    flow = _join(left=2, right=4)
    flow.trigger(1, PASSING, 0.0)
    flow.committed("left", 8, {}, 0.0)
    assert flow.readable("join", "left") == 9
    assert _read(flow, 9, 3, now=1.0) == []
    [cut] = _read(flow, 9, 5, now=4.0)
    assert cut.read_behind == {"left": range(3, 9), "right": range(5, 5)}
    assert not any(cut.in_flight.values())
    assert cut.alignment == 3.0


def test_passing_checkpoints_in_flight_are_all_cut_by_one_batch_that_passes_them() -> None:
    flow = _join(left=0, right=0)
    flow.trigger(1, PASSING, 0.0)
    flow.committed("left", 1, {}, 0.0)
    flow.trigger(2, PASSING, 0.0)
    cuts = _read(flow, 2, 1)
    assert [(cut.checkpoint, cut.read_behind["left"]) for cut in cuts] == [
        (1, range(1, 2)),
        (2, range(2, 2)),
    ]


def test_a_skipped_id_is_no_barrier_to_wait_for() -> None:
    flow = _join(left=0, right=0)
    flow.trigger(3, PASSING, 0.0)
    flow.abort(3)
    flow.trigger(7, PASSING, 0.0)
    assert [cut.checkpoint for cut in _read(flow, 1, 1)] == [7]


def test_a_restart_goes_on_from_batches_and_positions_without_old_barriers() -> None:
    flow = _join(left=4, right=4, join=2)
    flow.trigger(1, ALIGNED, 0.0)
    again = Flow(
        {"left": (), "right": (), "join": ("left", "right")},
        {"left": 4, "right": 4, "join": 2},
        {"left": {}, "right": {}, "join": {"left": 2, "right": 5}},
    )
    assert (again.position("join", "left"), again.readable("join", "left")) == (2, 5)
    assert again.committed("join", 3, {"left": 5, "right": 5}, 0.0) == []
    assert _regions(again.trigger(2, ALIGNED, 0.0)) == ["left", "right", "join"]


def test_a_cut_does_not_change_when_the_region_goes_on() -> None:
    flow = _line()
    cuts = flow.trigger(1, ALIGNED, 0.0)
    flow.committed("a", 1, {}, 0.0)
    flow.committed("b", 1, {"a": 2}, 0.0)
    assert (cuts[1].batch, cuts[1].positions) == (0, {"a": 1})
