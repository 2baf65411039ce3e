"""Staged files survive a power cut: they, and every directory on the way to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.sinks.files.staging import _make_durable, _staged
from holdfast.storage.moving import LocalFolder


def test_every_directory_on_the_way_to_a_file_is_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(LocalFolder, "sync", lambda _, path: synced.append(path))
    names = ["a=1/b=2/x.json", "a=1/b=3/y.json", "z.json"]
    _make_durable(LocalFolder(tmp_path), "t", [_staged(name, 1) for name in names])
    directories = {"t", "t/a=1", "t/a=1/b=2", "t/a=1/b=3"}
    assert set(synced) == directories | {f"t/{name}" for name in names}
    assert len(synced) == len(set(synced))
