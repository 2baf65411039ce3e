"""The contract suites for sinks pass good ones, and find what is wrong with others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from examples.own_sink import LinesSink

from holdfast.testing.sinks import TwoPhaseCommitContract, WriteAheadContract
from tests.spark.line_stores import (
    KeyedLines,
    MarkedLines,
    Rows,
    newest_lines,
    read_marked,
    visible_lines,
)

ROOT = Path(__file__).parents[2]


class TestLines(TwoPhaseCommitContract):
    @pytest.fixture(autouse=True)
    def store(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "lines"
        self.is_keyed = False

    def make_sink(self) -> LinesSink:
        return LinesSink(str(self.folder))

    def make_keyed_sink(self) -> KeyedLines:
        self.is_keyed = True
        return KeyedLines(str(self.folder))

    def visible(self) -> Rows:
        return newest_lines(self.folder) if self.is_keyed else visible_lines(self.folder)


class TestMarkedLines(WriteAheadContract):
    @pytest.fixture(autouse=True)
    def store(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "marked"

    def make_sink(self) -> MarkedLines:
        return MarkedLines(self.folder)

    def visible(self) -> Rows:
        return [(number, text) for number, text in read_marked(self.folder)["rows"]]


FOUND = {
    "VisibleAtOnce": "rule 3: rows are not visible before commit",
    "CommitsTwice": "rule 4: commit does nothing for a transaction that is committed already",
    "RefusesToCommitAgain": "rule 4: commit does nothing for a transaction that is committed",
    "AbortsNothing": "rule 6: what was committed or aborted is not pending",
    "AbortsOnlyOnce": "rule 5: abort may come any number of times",
    "AbortsWholeEpochs": "rule 7: each part is committed or aborted by itself",
    "ForgetsWhatIsPending": "rule 6: pending lists what is neither committed nor aborted",
    "ListsWhatIsOfOthers": "rule 6: pending lists transactions of this job and sink only",
    "ListsOtherHandles": "rule 6: pending lists what is neither committed nor aborted",
    "NamesTriesAlike": "rule 2: two tries of one part have two names",
    "KeepsRowsInMemory": "rule 3: after pre_commit another object can commit",
    "CommitsByCopying": "rule 3: killed at step",
    "DoesNotRecover": "rule 4: recover_and_commit is commit after a restart",
    "KeepsItsConnection": "rule 1: nothing that cannot be pickled is left",
    "HandsOutPaths": "rule 2: a handle survives being written as JSON",
    "LosesOddTexts": "rule 3: rows arrive as they were given",
    "DoesNotReplace": "rule 7: of every key the row of the newest epoch is visible",
    "WritesWithoutMarker": "rule 2: an epoch whose marker is there is not written again",
    "MarksAlike": "rule 3: the marker names checkpoint, sink and job",
    "MarksFirst": "rule 1: neither rows nor marker are left when reading the rows fails",
    "MarksLast": "rule 1: killed after 1 batches",
    "RemembersTheNewestMarkerOnly": "rule 2: a restore from an older checkpoint",
}
"""What the suites must say, among other things, of each broken sink."""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By sink, what the suites say is wrong with it."""
    folder = tmp_path_factory.mktemp("verdicts")
    # What is slow finds the same as the rest, with two exceptions.
    slow = "a_crash_after or at_any_step or another_process or at_once_one_does or many_rows"
    chosen = f"not ({slow}) or (CommitsByCopying and at_any_step) or (InMemory and dropped)"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen]
    command += [f"--junitxml={folder}/report.xml", f"--basetemp={folder}/tmp"]
    ended = subprocess.run(
        [*command, "tests/spark/broken_sinks.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        sink = case.attrib["classname"].rpartition(".")[2].removeprefix("Test")
        messages = [failure.attrib["message"] for failure in case.iter("failure")]
        found.setdefault(sink, []).extend(messages)
    return found


@pytest.mark.parametrize("sink", FOUND)
def test_a_sink_that_breaks_a_rule_is_told_which(verdicts: Any, sink: str) -> None:
    assert any(FOUND[sink] in message for message in verdicts[sink]), verdicts[sink]


def test_a_crash_shows_rows_that_were_not_durable(verdicts: Any) -> None:
    told = verdicts["KeepsRowsInMemory"]
    assert any("rule 8: dropped after stored" in message for message in told), told


def test_every_broken_sink_is_told_something(verdicts: Any) -> None:
    assert set(verdicts) == set(FOUND)
