"""A copy that is killed leaves the whole target or none, and the source as it was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from holdfast import querylog
from holdfast.testing.storage_crashes import kill_at_some_steps
from tests.compat.samples import NEWEST, unpack
from tests.faults.test_bad_input import fingerprint


def _survives(log: Path, target: Path, before: object) -> None:
    assert fingerprint(log) == before
    if target.exists():
        assert querylog.verify(target).ok
        target.rename(target.with_name(f"done-{len(list(target.parent.iterdir()))}"))


@pytest.mark.parametrize(
    ("sample", "link"),
    [
        ("stateless.hashmap", False),
        ("stateless.hashmap", True),
        ("transform-with-state.rocksdb-2-changelog", False),
    ],
)
def test_a_copy_killed_at_many_steps(tmp_path: Path, sample: str, link: bool) -> None:
    log = unpack(f"{NEWEST}/{sample}", tmp_path)
    before, target = fingerprint(log), tmp_path / "target"
    copy = partial(querylog.copy, log, target, batch=3, link=link)
    for _ in kill_at_some_steps(copy, how_many=40):
        _survives(log, target, before)
    copy()
    assert querylog.verify(target).ok
    assert not list(tmp_path.glob(".target*")), "the last copy removes what dead ones left"
