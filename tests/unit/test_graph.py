"""Which jobs are jobs: order, channels, and everything that is wrong said at once."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.job import JobError
from holdfast.protocol.graph import Graph, Region, SinkUse, Source, build_graph, in_flow_order


class Screen:
    """A plain sink."""

    def write(self, rows: Any, batch: int) -> None:
        """Nobody looks."""


def _nothing(*frames: Any) -> Any:
    return frames


def _source(uid: str) -> Source:
    return Source(uid, _nothing)


def _region(uid: str, *reads: str, output_mode: str = "append") -> Region:
    return Region(uid, reads, _nothing, output_mode)


def _sink(uid: str, region: str) -> SinkUse:
    return SinkUse(uid, region, Screen())


def _graph(*regions: Region, sinks: str, sources: str = "s") -> Graph:
    built = build_graph(
        "job",
        [_source(uid) for uid in sources.split()],
        regions,
        [_sink(f"to-{uid}", uid) for uid in sinks.split()],
    )
    assert isinstance(built, Graph), built
    return built


def _problems(
    *regions: Region, sources: str = "s", sinks: tuple[SinkUse, ...] = (), name: str = "job"
) -> list[str]:
    built = build_graph(name, [_source(uid) for uid in sources.split()], regions, sinks)
    assert isinstance(built, list), "nothing is wrong"
    return built


def test_regions_come_producers_first_in_whatever_order_they_were_declared() -> None:
    graph = _graph(
        _region("gold", "silver", "other"),
        _region("silver", "bronze"),
        _region("other", "s"),
        _region("bronze", "s"),
        sinks="gold",
    )
    order = list(graph.regions)
    assert order.index("bronze") < order.index("silver") < order.index("gold")
    assert order.index("other") < order.index("gold")


def test_regions_that_do_not_depend_on_each_other_stay_as_declared() -> None:
    regions = [_region("z", "s"), _region("a", "s"), _region("m", "s")]
    assert [region.uid for region in in_flow_order(regions)] == ["z", "a", "m"]


def test_a_region_with_readers_has_one_channel_for_all_of_them() -> None:
    graph = _graph(_region("a", "s"), _region("b", "a"), _region("c", "a", "b", "s"), sinks="b c")
    assert graph.channels == {"a": ("b", "c"), "b": ("c",)}


def test_a_source_is_not_a_channel() -> None:
    graph = _graph(_region("a", "s"), _region("b", "s", "a"), sinks="b")
    assert graph.inputs("a") == ()
    assert graph.inputs("b") == ("a",)


def test_a_region_may_have_several_sinks() -> None:
    built = build_graph(
        "job", [_source("s")], [_region("a", "s")], [_sink("x", "a"), _sink("y", "a")]
    )
    assert isinstance(built, Graph)
    assert [use.uid for use in built.sinks_of("a")] == ["x", "y"]


def test_a_circle_is_refused_with_its_regions() -> None:
    problems = _problems(_region("a", "s", "b"), _region("b", "a"), sinks=(_sink("x", "b"),))
    assert problems == ["regions read each other in a circle: a, b"]


def test_a_region_that_reads_itself_is_a_circle() -> None:
    assert _problems(_region("a", "s", "a")) == ["regions read each other in a circle: a"]


@pytest.mark.parametrize("uid", ["", "a b", "../up", ".hidden", "ä", "x" * 101, None])
def test_a_uid_must_be_able_to_name_a_directory(uid: Any) -> None:
    found = _problems(Region(uid, ("s",), _nothing), sinks=(SinkUse("x", uid, Screen()),))
    assert len(found) == 1
    assert repr(uid) in found[0]


def test_the_jobs_name_must_be_able_to_name_a_directory() -> None:
    found = _problems(_region("a", "s"), sinks=(_sink("x", "a"),), name="my job")
    assert found == [
        "the job's name 'my job' must be letters, digits, '_', '-' and '.', at most 100"
    ]


def test_uids_are_unique_over_sources_regions_and_sinks() -> None:
    found = _problems(_region("a", "s"), sinks=(_sink("s", "a"),))
    assert found == ["uid 's' is used twice, by a source and by a sink"]
    found = _problems(_region("a", "s"), sinks=(_sink("S", "a"),))
    assert found == ["uid 'S' differs from 's' only in case, by a source and by a sink"]


def test_an_input_that_is_not_there_is_answered_with_the_nearest() -> None:
    found = _problems(
        _region("clicks", "s"), _region("b", "cliks"), sinks=(_sink("x", "b"), _sink("y", "clicks"))
    )
    assert found == ["region 'b' reads 'cliks', which is not there (did you mean 'clicks'?)"]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = _problems(
        _region("a", "s", "s", "typo", output_mode="upsert"),
        _region("a", "s"),
        _region("lonely"),
        sources="s unread",
        sinks=(_sink("x", "nowhere"),),
        name="a/b",
    )
    said = "\n".join(found)
    for part in (
        "the job's name 'a/b'",
        "uid 'a' is used twice, by a region and by a region",
        "region 'a' reads 'typo', which is not there",
        "region 'a' names 's' twice",
        "region 'a' has output mode 'upsert'; there are append, update, complete",
        "region 'lonely' reads nothing",
        "region 'lonely' is read by nothing",
        "sink 'x' takes the rows of 'nowhere', which is not a region",
        "source 'unread' is read by no region",
    ):
        assert part in said
    assert len(found) == len(set(found)) + 1  # both regions named 'a' are read by nothing


def test_a_job_without_regions_is_told_what_to_write() -> None:
    assert any("@job.region" in problem for problem in _problems())


def test_a_job_is_declared_by_decorators_and_names() -> None:
    job = hf.Job("page-views")
    clicks = job.source("clicks", _nothing)
    views = job.region("views", reads=clicks)(_nothing)
    job.region("pv", reads=[views, "clicks"], output_mode="update")(_nothing)
    job.sink("out", "pv", Screen())
    graph = job.graph()
    assert list(graph.regions) == ["views", "pv"]
    assert graph.regions["pv"].reads == ("views", "clicks")
    assert graph.regions["pv"].output_mode == "update"


def test_a_job_names_what_is_no_sink_together_with_what_is_wrong_with_the_graph() -> None:
    job = hf.Job("page views")
    job.region("a", reads="nothing")(_nothing)
    job.sink("out", "a", print)
    with pytest.raises(JobError) as failure:
        job.graph()
    said = str(failure.value)
    assert "the job's name 'page views'" in said
    assert "reads 'nothing', which is not there" in said
    assert "sink 'out' is not a sink" in said


def test_what_is_no_sink_is_enough_to_refuse_a_job() -> None:
    job = hf.Job("job")
    job.source("s", _nothing)
    job.region("a", reads="s")(_nothing)
    job.sink("out", "a", object())
    with pytest.raises(JobError, match="sink 'out' is not a sink"):
        job.graph()


def test_a_source_cannot_be_a_sinks_region() -> None:
    job = hf.Job("job")
    clicks = job.source("clicks", _nothing)
    job.region("a", reads=clicks)(_nothing)
    job.sink("out", "clicks", Screen())
    with pytest.raises(JobError, match="takes the rows of 'clicks', which is not a region"):
        job.graph()
