"""The storage rules on a real HDFS."""

from __future__ import annotations

import secrets
import time

import pytest

from holdfast.errors import StorageError, UsageError
from holdfast.spark.hadoop import HadoopFiles
from holdfast.spark.session import local_session
from holdfast.storage import create_tree, open_storage
from holdfast.storage.names import staging_name, temporary_name
from holdfast.storage.trees import delete_unfinished
from holdfast.testing.storage import StorageContract
from holdfast.testing.storage_tree import Remains, TreeContract

pytestmark = [pytest.mark.services, pytest.mark.spark]

# Each process that dies has started a Spark of its own first: seconds, not milliseconds.


class TestHadoopStorage(StorageContract):
    racers = 2
    stride = 40

    @pytest.fixture
    def location(self, hdfs: str) -> str:
        return f"{hdfs}/storage-{secrets.token_hex(4)}"


class TestHadoopTree(TreeContract):
    remains = Remains.HIDDEN
    racers = 2
    stride = 400

    @pytest.fixture
    def location(self, hdfs: str) -> str:
        return f"{hdfs}/tree-{secrets.token_hex(4)}"

    def raw_names(self, location: str) -> list[str]:
        found = HadoopFiles(location).entries_of(location)
        return sorted(entry.path.rpartition("/")[2] for entry in found)

    def wipe(self, location: str) -> None:
        HadoopFiles(location).delete(location)


class TestWhatOnlyHadoopDoes:
    def test_what_a_dead_process_left_is_removed_after_a_day(self, hdfs: str) -> None:
        location = f"{hdfs}/old-{secrets.token_hex(4)}"
        files = HadoopFiles(location)
        fresh, old = (f"{location}/{staging_name('target')}" for _ in range(2))
        for directory in (fresh, old):
            files.make_directory(directory)
        two_days_ago = int((time.time() - 2 * 24 * 3600) * 1000)
        files._fs.setTimes(files._path(old), two_days_ago, -1)
        create_tree(f"{location}/target", "seal").discard()
        assert [entry.path for entry in files.entries_of(location)] == [fresh]

    def test_whoever_owns_a_directory_clears_away_what_is_unfinished_and_it_is_not_published(
        self, hdfs: str
    ) -> None:
        location = f"{hdfs}/owned-{secrets.token_hex(4)}"
        storage = open_storage(location)
        storage.publish("shared/kept", b"x")
        files = HadoopFiles(location)
        files.create(f"{location}/shared/{temporary_name()}", [b"half"])
        tree = create_tree(f"{location}/target", "seal")
        tree.write("one", b"1")
        delete_unfinished(storage)
        assert [f.path for f in files.files_below(location)] == [f"{location}/shared/kept"]
        assert [e.path for e in files.entries_of(location)] == [f"{location}/shared"]
        tree.write("two", b"2")
        tree.write("seal", b"")
        with pytest.raises(StorageError, match="deleted meanwhile"):
            tree.publish()
        assert [e.path for e in files.entries_of(location)] == [f"{location}/shared"]

    def test_a_file_that_is_in_the_tree_already_is_not_replaced(self, hdfs: str) -> None:
        tree = create_tree(f"{hdfs}/twice-{secrets.token_hex(4)}", "seal")
        tree.write("file", b"x")
        with pytest.raises(StorageError, match="already exists"):
            tree.write("file", b"y")
        tree.discard()

    def test_the_root_is_a_directory_like_any_other(self, hdfs: str) -> None:
        name = f"root-{secrets.token_hex(4)}"
        root = open_storage(hdfs)
        root.publish(name, b"x")
        assert root.uri == hdfs
        assert name in [file.path for file in root.list()]
        assert open_storage(f"{hdfs}/").read(name) == b"x"

    def test_a_scheme_that_nobody_knows_is_refused(self) -> None:
        with pytest.raises(UsageError, match="nosuch"):
            open_storage("nosuch://host/path")

    def test_a_server_that_is_not_there_is_a_clear_error(self) -> None:
        spark = local_session("test")
        spark._jsc.hadoopConfiguration().set("ipc.client.connect.max.retries", "0")
        with pytest.raises(StorageError, match="hint: Check the host and port"):
            open_storage("hdfs://127.0.0.1:1/path").list()
