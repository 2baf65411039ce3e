"""The contract suites on sinks that break a rule; ``test_sink_contract.py`` runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.sinks import TwoPhaseCommitContract, WriteAheadContract
from tests.spark import line_stores as stores

BROKEN = (
    stores.VisibleAtOnce,
    stores.CommitsTwice,
    stores.RefusesToCommitAgain,
    stores.AbortsNothing,
    stores.AbortsOnlyOnce,
    stores.AbortsWholeEpochs,
    stores.ForgetsWhatIsPending,
    stores.ListsWhatIsOfOthers,
    stores.ListsOtherHandles,
    stores.NamesTriesAlike,
    stores.KeepsRowsInMemory,
    stores.CommitsByCopying,
    stores.DoesNotRecover,
    stores.KeepsItsConnection,
    stores.HandsOutPaths,
    stores.LosesOddTexts,
)
BROKEN_WRITE_AHEAD = (
    stores.WritesWithoutMarker,
    stores.MarksAlike,
    stores.MarksFirst,
    stores.MarksLast,
    stores.RemembersTheNewestMarkerOnly,
)


class Lines(TwoPhaseCommitContract):
    broken: Callable[[Any], Any]

    @pytest.fixture(autouse=True)
    def store(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "lines"

    def make_sink(self) -> Any:
        return type(self).broken(self.folder)

    def visible(self) -> stores.Rows:
        return stores.visible_lines(self.folder)


class Marked(WriteAheadContract):
    broken: Callable[[Any], Any]

    @pytest.fixture(autouse=True)
    def store(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "marked"

    def make_sink(self) -> Any:
        return type(self).broken(self.folder)

    def visible(self) -> stores.Rows:
        return [(a, b) for a, b in stores.read_marked(self.folder)["rows"]]


class TestDoesNotReplace(Lines):
    broken = stores.KeyedLines

    def make_keyed_sink(self) -> Any:
        return stores.KeyedLines(str(self.folder))


for _broken in BROKEN:
    _name = f"Test{_broken.__name__}"
    globals()[_name] = type(_name, (Lines,), {"broken": _broken})
for _marked in BROKEN_WRITE_AHEAD:
    _name = f"Test{_marked.__name__}"
    globals()[_name] = type(_name, (Marked,), {"broken": _marked})
