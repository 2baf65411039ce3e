"""The storage rules on a local disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.testing.storage import StorageContract
from holdfast.testing.storage_tree import TreeContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        return str(tmp_path / "storage")


class TestLocalTree(TreeContract):
    has_links = True

    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        return str(tmp_path / "storage")

    def raw_names(self, location: str) -> list[str]:
        return sorted(entry.name for entry in Path(location).glob("*"))

    def wipe(self, location: str) -> None:
        shutil.rmtree(location)
