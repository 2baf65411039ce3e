"""A copy that is killed leaves the whole target or none, and the source as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast import querylog
from holdfast.testing.interruption import kill_at_every_step
from tests.compat.samples import NEWEST, unpack
from tests.faults.test_bad_input import fingerprint


def _survives(log: Path, target: Path, before: object) -> None:
    assert fingerprint(log) == before
    if target.exists():
        assert querylog.verify(target).ok
        target.rename(target.with_name(f"done-{len(list(target.parent.iterdir()))}"))


def _prepared(log: Path, target: Path, link: bool) -> Callable[[], object]:
    return partial(querylog.copy, log, target, batch=3, link=link)


@pytest.mark.parametrize(
    ("sample", "link", "stride"),
    [
        ("stateless.hashmap", False, 7),
        ("stateless.hashmap", True, 7),
        ("transform-with-state.rocksdb-2-changelog", False, 23),
    ],
)
def test_a_copy_killed_at_many_steps(tmp_path: Path, sample: str, link: bool, stride: int) -> None:
    log = unpack(f"{NEWEST}/{sample}", tmp_path)
    before, target = fingerprint(log), tmp_path / "target"
    copy = partial(_prepared, log, target, link)
    for _ in kill_at_every_step(copy, stride=stride):
        _survives(log, target, before)
    assert querylog.verify(target).ok
    assert not list(tmp_path.glob(".target*")), "the last copy removes what dead ones left"
