"""The storage rules on a real S3 server."""

from __future__ import annotations

import os
import secrets
import socket
import urllib.request
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from holdfast.errors import DestinationExists, StorageError
from holdfast.storage import create_tree, open_storage
from holdfast.storage.local import LocalStorage
from holdfast.storage.objects import ObjectStorage
from holdfast.storage.streams import stream_of
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


class TestWhatOnlyObjectStoresDo:
    @pytest.fixture
    def location(self, s3: S3Server) -> str:
        return f"s3://{s3.bucket}/other-{secrets.token_hex(4)}"

    def test_an_unfinished_tree_says_whose_it_is_and_what_to_delete(self, location: str) -> None:
        unfinished = create_tree(location, "seal")
        with pytest.raises(DestinationExists) as refused:
            create_tree(location, "seal")
        hint = refused.value.hint or ""
        assert f"by process {os.getpid()} on {socket.gethostname()}" in hint
        assert f"delete everything below {location}/" in hint
        unfinished.discard()

    def test_objects_that_are_no_unfinished_tree_are_not_said_to_be_one(
        self, location: str
    ) -> None:
        open_storage(location).publish("precious", b"x")
        with pytest.raises(DestinationExists) as refused:
            create_tree(location, "seal")
        assert "unfinished" not in str(refused.value)

    def test_an_object_in_the_place_of_the_tree_is_refused(self, location: str) -> None:
        open_storage(location).publish("target", b"x")
        with pytest.raises(DestinationExists):
            create_tree(f"{location}/target", "seal")

    def test_empty_objects_that_mark_directories_are_not_listed(self, location: str) -> None:
        storage = ObjectStorage(location)
        storage.publish("dir/file", b"x")
        storage.publish("empty", b"")
        for marker in ("dir/", ""):
            put_marker(f"{storage.root}/{storage.prefix}{marker}".removeprefix("s3://"))
        assert [file.path for file in storage.list()] == ["dir/file", "empty"]
        assert [file.path for file in storage.list("dir")] == ["dir/file"]

    def test_a_bucket_that_does_not_exist_is_a_storage_error(self, s3: S3Server) -> None:
        with pytest.raises(StorageError, match="no-such-bucket"):
            open_storage("s3://no-such-bucket/x").read("file")

    def test_a_source_that_fails_half_way_leaves_no_file(self, location: str) -> None:
        tree = create_tree(location, "seal")
        with pytest.raises(StorageError, match="the disk reports an error"):
            tree.copy(FailingHalfWay("/"), "file", "file")
        assert open_storage(location).list() == []
        tree.discard()


class FailingHalfWay(LocalStorage):
    """A disk that breaks after 20 MB."""

    def open(self, path: str) -> BinaryIO:
        return stream_of(self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        yield bytes(20 << 20)
        raise StorageError("the disk reports an error", path="file")


def put_marker(key: str) -> None:
    """What other tools do to show an empty directory; the library would refuse the name."""
    url = f"{os.environ['AWS_ENDPOINT_URL']}/{key}"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", data=b"")).close()
