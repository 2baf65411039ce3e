"""A query log that lacks a commit in the middle: Spark would leave that batch out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.errors import NotRestorable
from holdfast.protocol.graph import Graph, Region
from holdfast.querylog.snapshots import newest_commit, refuse_skipped
from holdfast.runtime.attempts import standing
from holdfast.runtime.work import Attempt
from holdfast.storage import open_storage
from tests.compat.samples import NEWEST, unpack


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Of a query whose next batch is planned."""
    found = unpack(f"{NEWEST}/aggregation.hashmap", tmp_path)
    commit = newest_commit(found)
    assert commit is not None
    shutil.copy(found / f"offsets/{commit.batch}", found / f"offsets/{commit.batch + 1}")
    return found


def test_a_batch_that_is_planned_behind_the_newest_commit_will_run_again(log: Path) -> None:
    refuse_skipped(log)


def test_a_batch_whose_commit_is_lost_would_be_left_out(log: Path) -> None:
    commit = newest_commit(log)
    assert commit is not None
    (log / f"commits/{commit.batch}").unlink()
    with pytest.raises(NotRestorable, match=f"batch {commit.batch} was planned") as error:
        refuse_skipped(log)
    assert str(error.value.ids["path"]).endswith(f"commits/{commit.batch}")


def test_a_query_that_has_not_begun_leaves_nothing_out(tmp_path: Path) -> None:
    refuse_skipped(tmp_path / "none")


def test_an_attempt_with_such_a_log_is_not_gone_on_with(log: Path, tmp_path: Path) -> None:
    attempt = tmp_path / "attempt"
    shutil.copytree(log, attempt / "regions" / "r")
    newest = newest_commit(log)
    assert newest is not None
    graph = Graph("job", {}, {"r": Region("r", ("s",), lambda rows: rows)}, {})
    here = Attempt(1, open_storage(attempt), None, None)
    assert standing(here, graph).batches == {"r": newest.batch}
    (attempt / f"regions/r/commits/{newest.batch}").unlink()
    with pytest.raises(NotRestorable, match="was planned and not committed"):
        standing(here, graph)
