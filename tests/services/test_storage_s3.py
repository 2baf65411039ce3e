"""The storage rules on a real S3 server."""

from __future__ import annotations

import secrets

import pytest

from holdfast.storage.objects import ObjectStorage
from holdfast.testing.storage import StorageContract
from holdfast.testing.storage_tree import Remains, TreeContract
from tests.services.servers import S3Server

pytestmark = pytest.mark.services


def raw(location: str) -> list[str]:
    return [file.path for file in ObjectStorage(location).list_all()]


class TestObjectStorage(StorageContract):
    @pytest.fixture
    def location(self, s3: S3Server) -> str:
        return f"s3://{s3.bucket}/storage-{secrets.token_hex(4)}"


class TestObjectTree(TreeContract):
    remains = Remains.REFUSED
    appears_at_once = False

    @pytest.fixture
    def location(self, s3: S3Server) -> str:
        return f"s3a://{s3.bucket}/tree-{secrets.token_hex(4)}"

    def raw_names(self, location: str) -> list[str]:
        return sorted({path.partition("/")[0] for path in raw(location)})

    def wipe(self, location: str) -> None:
        storage = ObjectStorage(location)
        for path in raw(location):
            storage.delete(path)
