"""Random graphs, random interleavings: every checkpoint is one consistent cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.protocol.flow import NOTHING, Alignment
from tests.property.flow_model import Graph, Model

History = list[tuple[str, int, int]]
"""What happens, to whom, how much."""


@st.composite
def models(draw: st.DrawFn) -> Model:
    """One to five regions; names run against the flow, so that sorting them by name is wrong."""
    names = "edcba"[: draw(st.integers(1, 5))]
    graph: Graph = {}
    for at, name in enumerate(names):
        graph[name] = tuple(c for c in names[:at] if draw(st.booleans()))
    sources = {n for n in names if not graph[n] or draw(st.integers(0, 3)) == 0}
    return Model(graph, sources)


def steps(*kinds: str) -> st.SearchStrategy[History]:
    """Mostly work, so that checkpoints meet rows."""
    work = ["batch"] * 6 + ["plan", "commit"] * 2
    step = st.tuples(st.sampled_from([*work, *kinds]), st.integers(0, 4), st.integers(0, 3))
    # Lists of a length that is drawn first are longer than Hypothesis would make them.
    return st.integers(0, 50).flatmap(lambda n: st.lists(step, min_size=n, max_size=n))


def _run(model: Model, history: History) -> None:
    for step in history:
        model.step(*step)
    model.run_dry()
    assert not model.running, "a checkpoint never cuts every region"


@settings(max_examples=150)
@given(models(), steps("aligned", "aligned", "abort", "finish", "restart"))
def test_aligned_checkpoints_hold_exactly_what_came_before_their_barriers(
    model: Model, history: History
) -> None:
    _run(model, history)


@settings(max_examples=100)
@given(models(), steps("unaligned", "finish", "restart"))
def test_unaligned_checkpoints_hold_the_rest_as_in_flight_data(
    model: Model, history: History
) -> None:
    _run(model, history)


@settings(max_examples=150)
@given(models(), steps("aligned", "overtake", "abort", "finish"))
def test_checkpoints_that_turn_unaligned_lose_and_repeat_nothing(
    model: Model, history: History
) -> None:
    _run(model, history)


@settings(max_examples=150)
@given(models(), steps("passing", "passing", "abort", "finish", "restart"))
def test_passing_checkpoints_repeat_exactly_what_was_read_behind_their_barriers(
    model: Model, history: History
) -> None:
    _run(model, history)


@settings(max_examples=100)
@given(models(), steps("aligned", "unaligned", "passing", "overtake", "abort", "finish", "restart"))
def test_checkpoints_of_every_kind_may_be_in_flight_together(
    model: Model, history: History
) -> None:
    _run(model, history)


@settings(max_examples=50)
@given(models(), steps("aligned", "passing"))
def test_after_all_are_aborted_nothing_is_held(model: Model, history: History) -> None:
    for step in history:
        model.step(*step)
    for checkpoint in list(model.running):
        model.step("abort", 0, checkpoint)
    for name, inputs in model.graph.items():
        for channel in inputs:
            assert model.flow.readable(name, channel) == model.regions[channel].batch + 1


@settings(max_examples=50)
@given(models(), steps())
def test_regions_that_have_finished_are_still_cut(model: Model, history: History) -> None:
    for step in history:
        model.step(*step)
    model.run_dry()
    for at in range(len(model.regions)):
        model.step("finish", at, 0)
    assert all(region.finished for region in model.regions.values())
    for alignment in Alignment:
        model.step(alignment.value, 0, 0)
    assert len(model.complete) == len(Alignment)
    assert not model.running


def test_a_region_that_has_committed_nothing_is_cut_before_its_first_batch() -> None:
    model = Model({"b": (), "a": ("b",)}, {"b"})
    model.step("aligned", 0, 0)
    assert [cut.batch for cut in model.complete[1].cuts.values()] == [NOTHING, NOTHING]
