"""Jobs that would read what they write."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import UsageError
from holdfast.runtime.feedback import refuse_feedback

JOB = "0123456789abcdef" * 2
HERE = "one:9092,two:9092"


def start(pattern: str, servers: str = HERE, **options: Any) -> None:
    job = hf.Job("job")
    job.source("in", hf.sources.kafka("two:9092", pattern=pattern))
    job.region("rows", reads="in")(lambda rows: rows)
    job.sink("out", "rows", hf.sinks.kafka(servers, "orders-done", **options))
    refuse_feedback(job.graph(), JOB)


@pytest.mark.parametrize(
    ("pattern", "prefix"), [(".*", None), ("holdfast-.*", None), ("orders-.*", "orders")]
)
def test_a_pattern_that_matches_the_markers_of_a_sink_is_refused(
    pattern: str, prefix: str | None
) -> None:
    with pytest.raises(UsageError, match=r"source in also matches .*sink out keeps its markers"):
        start(pattern, transactional_id_prefix=prefix)


def test_other_patterns_clusters_and_ways_of_delivery_are_no_trouble() -> None:
    start("clicks-.*")
    start(".*", servers="elsewhere:9092")
    start("(?!holdfast-|orders-done).*")
    start(".*", delivery="at-least-once")
    start(r"\p{Alpha}+")  # Java knows what that is


def test_rows_that_go_round_by_a_pattern_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        start("orders-.*")
    assert "source in reads topic orders-done by its pattern" in caplog.text
