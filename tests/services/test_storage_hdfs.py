"""The storage rules on a real HDFS."""

from __future__ import annotations

import secrets

import pytest

from holdfast.spark.hadoop import HadoopFiles
from holdfast.testing.storage import StorageContract
from holdfast.testing.storage_tree import Remains, TreeContract

pytestmark = [pytest.mark.services, pytest.mark.spark]

# Each process that dies has started a Spark of its own first: seconds, not milliseconds.


class TestHadoopStorage(StorageContract):
    racers = 2
    stride = 10

    @pytest.fixture
    def location(self, hdfs: str) -> str:
        return f"{hdfs}/storage-{secrets.token_hex(4)}"


class TestHadoopTree(TreeContract):
    remains = Remains.HIDDEN
    racers = 2
    stride = 40

    @pytest.fixture
    def location(self, hdfs: str) -> str:
        return f"{hdfs}/tree-{secrets.token_hex(4)}"

    def raw_names(self, location: str) -> list[str]:
        found = HadoopFiles(location).entries_of(location)
        return sorted(entry.path.rpartition("/")[2] for entry in found)

    def wipe(self, location: str) -> None:
        HadoopFiles(location).delete(location)
