"""What is recorded about a checkpoint, and what is worked out from it."""

from __future__ import annotations

import json

from holdfast.protocol.statistics import (
    CheckpointFigures,
    RegionFigures,
    Status,
    TaskFigures,
    from_dict,
)


def _region(uid: str, acknowledged: float, alignment: float = 0.0) -> RegionFigures:
    tasks = (TaskFigures(0, 1.0, 5.0), TaskFigures(1, 3.0, 7.0))
    return RegionFigures(uid, 4, acknowledged, 0.5, alignment, 0.1, 0.2, 100, 30, 7, False, tasks)


def _checkpoint(*regions: RegionFigures) -> CheckpointFigures:
    figures = CheckpointFigures(3, 10.0, 2, "PERIODIC", full=False, unaligned=False)
    figures.acknowledged.update({region.uid: region for region in regions})
    return figures


def test_a_checkpoint_in_progress_has_no_duration_and_counts_who_has_answered() -> None:
    figures = _checkpoint(_region("a", 11.0))
    assert figures.status is Status.IN_PROGRESS
    assert figures.duration is None
    assert (figures.state_size, figures.last_acknowledgement) == (100, 11.0)


def test_nobody_has_answered_yet() -> None:
    figures = _checkpoint()
    assert (figures.state_size, figures.in_flight, figures.alignment) == (0, 0, 0.0)
    assert figures.last_acknowledgement is None


def test_sizes_add_up_and_the_longest_alignment_counts() -> None:
    figures = _checkpoint(_region("a", 11.0, alignment=2.0), _region("b", 13.0, alignment=1.0))
    figures.ended = 14.0
    assert (figures.state_size, figures.checkpointed_size, figures.in_flight) == (200, 60, 14)
    assert (figures.alignment, figures.duration) == (2.0, 4.0)
    assert figures.last_acknowledgement == 13.0


def test_skew_is_how_many_times_the_mean_the_slowest_task_took() -> None:
    assert _region("a", 1.0).skew == 1.5


def test_a_region_without_tasks_or_whose_tasks_took_no_time_is_even() -> None:
    bare = RegionFigures("a", 0, 1.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, False)
    idle = RegionFigures(
        "a", 0, 1.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, False, (TaskFigures(0, 0.0, 1.0),)
    )
    assert bare.skew == idle.skew == 1.0


def test_figures_are_read_back_from_a_file() -> None:
    figures = _checkpoint(_region("a", 11.0), _region("b", 12.0))
    figures.status, figures.ended, figures.reason = Status.FAILED, 20.0, "EXPIRED"
    assert from_dict(json.loads(json.dumps(figures.to_dict()))) == figures
