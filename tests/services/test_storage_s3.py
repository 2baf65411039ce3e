"""The storage rules on a real S3 server."""

from __future__ import annotations

import os
import secrets
import socket
import urllib.request
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from holdfast.checkpoints.store import CheckpointStore
from holdfast.errors import DestinationExists, StorageError
from holdfast.runtime.work import WorkDirectory
from holdfast.storage import create_tree, open_storage
from holdfast.storage.local import LocalStorage
from holdfast.storage.objects import ObjectStorage
from holdfast.storage.streams import stream_of
from holdfast.storage.trees import delete_unsealed
from holdfast.testing.storage import StorageContract
from holdfast.testing.storage_tree import Remains, TreeContract
from tests.property.store_model import metadata_of
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


class TestWhatOwnersClearAway:
    """A job is alone in its directories: at its start it deletes what its earlier runs left."""

    @pytest.fixture
    def location(self, s3: S3Server) -> str:
        return f"s3://{s3.bucket}/owned-{secrets.token_hex(4)}"

    def test_checkpoints_that_a_crash_interrupted_leave_no_object(self, location: str) -> None:
        store = CheckpointStore(location)
        store.begin(1).complete(metadata_of(1, ()))
        store.begin(2)._own_tree()  # died with nothing but the claim
        store.begin(3).write_own("1/a/x", b"state")
        ObjectStorage(location).publish("chk-1/.holdfast-0000000000000000", b"died when sealed")
        assert len(raw(location)) == 5
        assert list(CheckpointStore(location).completed) == [1]
        assert raw(location) == ["chk-1/_metadata"]

    def test_an_attempt_that_was_being_built_does_not_stop_the_next_one(
        self, location: str
    ) -> None:
        work = WorkDirectory(location, "job")
        first = work.begin(None)
        create_tree(work.storage.locate("attempt-2"), "attempt")  # died with the claim
        with_files = create_tree(work.storage.locate("attempt-3"), "attempt")
        with_files.write("regions/a/metadata", b"{}")
        assert work.begin(None).number == 4
        work.delete_unfinished()
        left = {path.split("/")[0] for path in raw(work.location)}
        assert left == {"job", "attempt-1", "attempt-4"}
        assert first.number == 1

    def test_a_tree_whose_beginnings_were_cleared_away_is_not_published(
        self, location: str
    ) -> None:
        tree = create_tree(f"{location}/target", "seal")
        tree.write("one", b"1")
        delete_unsealed(open_storage(location), "target", "seal")
        tree.write("two", b"2")
        tree.write("seal", b"")
        with pytest.raises(StorageError, match="deleted meanwhile"):
            tree.publish()
        assert "target/seal" not in raw(location)

    def test_a_tree_that_was_finished_meanwhile_is_left_alone(self, location: str) -> None:
        tree = create_tree(f"{location}/target", "seal")
        tree.write("one", b"1")
        tree.write("seal", b"")
        tree.publish()
        delete_unsealed(open_storage(location), "target", "seal")
        assert raw(location) == ["target/one", "target/seal"]
