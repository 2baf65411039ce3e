"""The end of a region's query, with a query and a source that only note what they are told."""

from __future__ import annotations

from typing import Any

from holdfast.protocol.graph import Region
from holdfast.runtime.regions import RunningRegion


class Told:
    """Stands for a source and for the query that reads it."""

    isActive = True  # noqa: N815

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.source = _Source(self.calls)

    def processAllAvailable(self) -> None:  # noqa: N802
        self.calls.append("do what is left")

    def stop(self) -> None:
        self.calls.append("end the query")


class _Source:
    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def stop(self) -> None:
        self._calls.append("wait no more")


def test_a_source_that_was_read_to_its_end_waits_no_more_while_spark_does_what_is_left() -> None:
    nobody: Any = None
    told: Any = Told()
    region = RunningRegion(Region("r", ("s",), nobody), "", nobody, nobody, [], nobody)
    region.query = told
    region._stoppable = [told.source]
    region.finish()
    assert told.calls[:2] == ["wait no more", "do what is left"]
    assert told.calls[-1] == "end the query"
