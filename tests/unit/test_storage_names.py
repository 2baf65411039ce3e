"""Paths, schemes, hidden names, and which storage a location is given to."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import StorageError, UsageError
from holdfast.storage import create_tree, open_storage
from holdfast.storage.local import LocalStorage, local_path
from holdfast.storage.local_tree import LocalTree
from holdfast.storage.names import (
    checked,
    is_staging_of,
    is_unfinished,
    scheme_of,
    staging_name,
    temporary_name,
)
from holdfast.storage.objects import ObjectStorage


@pytest.mark.parametrize("path", ["a", "a/b", ".x", "..x", "a b", "x=1/y", "…"])
def test_a_path_below_the_root_is_kept(path: str) -> None:
    assert checked(path) == path


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "a\0b"])
def test_any_other_path_is_refused(path: str) -> None:
    with pytest.raises(UsageError):
        checked(path)


@pytest.mark.parametrize(
    ("location", "scheme"),
    [
        ("/a/b", None),
        ("a:b", None),
        ("C:/windows", None),
        ("./s3://odd", None),
        ("file:/a", "file"),
        ("file:///a", "file"),
        ("S3A://bucket/key", "s3a"),
        ("hdfs:/a", "hdfs"),
    ],
)
def test_a_scheme_is_what_stands_before_colon_and_slash(location: str, scheme: str | None) -> None:
    assert scheme_of(location) == scheme


def test_unfinished_things_are_known_by_their_names() -> None:
    assert is_unfinished(temporary_name())
    assert is_unfinished(staging_name("some.target"))
    assert not any(map(is_unfinished, [".hidden", ".holdfast", "holdfast-0123456789abcdef", "x"]))


def test_a_staging_directory_belongs_to_one_target() -> None:
    assert is_staging_of(staging_name("a"), "a")
    assert not is_staging_of(staging_name("b.a"), "a")
    assert not is_staging_of(staging_name("a"), "a.b")
    assert not is_staging_of(temporary_name(), "a")


@pytest.mark.parametrize("location", ["/a/b", "file:/a/b", "file:///a/b", "file://localhost/a/b"])
def test_local_locations_are_paths_without_a_scheme(location: str) -> None:
    storage = open_storage(location)
    assert isinstance(storage, LocalStorage)
    assert storage.uri == "/a/b"
    assert storage.locate("c/d") == "/a/b/c/d"


def test_a_relative_path_becomes_absolute_and_links_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert open_storage("link/../link/x").uri == str(tmp_path / "link" / "x")
    assert open_storage(Path("x")).uri == str(tmp_path / "x")


def test_a_file_uri_of_another_machine_is_refused() -> None:
    with pytest.raises(UsageError, match="file:///host/a"):
        local_path("file://host/a")


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        open_storage("")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3"])
def test_s3_has_several_names_and_one_store(scheme: str) -> None:
    storage = open_storage(f"{scheme}://bucket/some/prefix/")
    assert isinstance(storage, ObjectStorage)
    assert storage.root == "s3://bucket"
    assert storage.key("x") == "some/prefix/x"
    assert storage.uri == f"{scheme}://bucket/some/prefix"


@pytest.mark.parametrize("location", ["az://container/x", "abfss://c@acct.dfs.core.windows.net/x"])
def test_azure_is_an_object_store(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if location.startswith("az:"):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acct")
    storage = open_storage(location)
    assert isinstance(storage, ObjectStorage)
    assert storage.locate("y") == f"{location}/y"


def test_a_uri_without_a_bucket_is_refused() -> None:
    with pytest.raises(UsageError, match="no bucket"):
        open_storage("s3:///key")


def test_a_bucket_that_cannot_be_reached_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StorageError, match="hint: Check the endpoint") as refused:
        open_storage("s3://bucket/key").read("file")
    assert refused.value.ids["path"] == "s3://bucket/key/file"


def test_a_local_tree_is_created_for_a_path(tmp_path: Path) -> None:
    tree = create_tree(tmp_path / "target", "seal")
    assert isinstance(tree, LocalTree)
    tree.discard()
    assert list(tmp_path.iterdir()) == []
