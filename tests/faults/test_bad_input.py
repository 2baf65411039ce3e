"""Whatever is wrong with a query log or a target is said clearly, and nothing is harmed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import querylog
from holdfast.errors import (
    DestinationExists,
    HoldfastError,
    NotAQueryLog,
    NotRestorable,
    QueryLogError,
    StorageError,
    UsageError,
)
from holdfast.querylog.changelog import StateVersion, read_changelog, write_changelog
from tests.compat.samples import NEWEST, unpack

BATCH = 4
"""The newest committed batch of the saved logs without a watermark."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return unpack(f"{NEWEST}/aggregation.rocksdb-2-changelog", tmp_path)


def fingerprint(directory: Path) -> dict[str, tuple[str, int]]:
    return {
        str(p.relative_to(directory)): (
            hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "",
            p.stat().st_mtime_ns,
        )
        for p in [directory, *directory.rglob("*")]
    }


def refusal(log: Path, tmp_path: Path, batch: int | None = None) -> HoldfastError:
    """The error of a copy, having checked that it left the source and the target alone."""
    before = fingerprint(log) if log.is_dir() else {}
    target = tmp_path / "target"
    with pytest.raises(HoldfastError) as refused:
        querylog.copy(log, target, batch)
    assert not target.exists()
    assert not list(tmp_path.glob(".target*"))
    assert before == (fingerprint(log) if log.is_dir() else {})
    return refused.value


# -- what is not a query log -----------------------------------------------------------------------


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nowhere", tmp_path)
    assert isinstance(error, NotAQueryLog)
    assert str(tmp_path / "nowhere") in str(error)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert isinstance(refusal(tmp_path / "empty", tmp_path), NotAQueryLog)


def test_some_other_directory_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "part-0.parquet").write_bytes(b"PAR1")
    assert "not a query log" in str(refusal(other, tmp_path))


def test_a_directory_of_query_logs_is_refused_and_they_are_named(log: Path, tmp_path: Path) -> None:
    inside = tmp_path / "all"
    inside.mkdir()
    log.rename(inside / "orders")
    assert "orders" in (refusal(inside, tmp_path).hint or "")


def test_a_query_log_without_its_id_is_refused(log: Path, tmp_path: Path) -> None:
    (log / "metadata").unlink()
    error = refusal(log, tmp_path)
    assert isinstance(error, NotAQueryLog)
    assert str(log / "metadata") in str(error)


def test_a_query_log_with_offsets_only_has_nothing_to_restore(log: Path, tmp_path: Path) -> None:
    for folder in ("commits", "state", "sources"):
        shutil.rmtree(log / folder)
    assert isinstance(refusal(log, tmp_path), NotRestorable)
    assert querylog.inspect(log).unfinished == (0, 1, 2, 3, 4)
    assert not querylog.verify(log).ok


# -- what is damaged -------------------------------------------------------------------------------


def only_problem(log: Path, batch: int | None = None) -> querylog.Problem:
    (problem,) = querylog.verify(log, batch).problems
    return problem


def forget_checksums(log: Path) -> None:
    for path in [p for p in log.rglob("*.crc") if p.is_file()]:
        path.unlink()


def test_a_gap_in_the_commits_is_found(log: Path) -> None:
    (log / "commits/2").unlink()
    problem = only_problem(log)
    assert problem.path == str(log / "commits/2")
    assert "gap" in problem.what
    assert "copy --batch" in (problem.hint or "")


def test_a_gap_is_gone_in_a_copy(log: Path, tmp_path: Path) -> None:
    (log / "commits/2").unlink()
    querylog.copy(log, tmp_path / "copy")
    assert querylog.verify(tmp_path / "copy").ok
    assert querylog.inspect(log).restorable == (0, 1, 3, 4)


def test_a_truncated_zip_is_named_and_older_batches_are_offered(tmp_path: Path) -> None:
    log = unpack(f"{NEWEST}/aggregation.rocksdb-1", tmp_path)
    broken = log / "state/0/1" / f"{BATCH + 1}.zip"
    broken.write_bytes(broken.read_bytes()[:-30])
    assert any(p.path == str(broken) for p in querylog.verify(log).problems)
    error = refusal(log, tmp_path)
    assert str(broken) in str(error)
    assert error.hint == "Batches that can be restored: 0-3."
    assert querylog.inspect(log).restorable == (0, 1, 2, 3)


def test_a_table_file_of_the_wrong_size_is_named(tmp_path: Path) -> None:
    log = unpack(f"{NEWEST}/aggregation.rocksdb-1", tmp_path)
    table = max((log / "state/0/0/SSTs").glob("*.sst"))
    table.write_bytes(table.read_bytes() + b"x")
    assert any(p.path == str(table) and "bytes" in p.what for p in querylog.verify(log).problems)
    assert str(table) in str(refusal(log, tmp_path))


@pytest.fixture
def chain(tmp_path: Path) -> list[Path]:
    """The two changelogs that one store of a join needs for its newest batch, oldest first."""
    log = unpack(f"{NEWEST}/inner-join.rocksdb-2-changelog", tmp_path)
    forget_checksums(log)
    needed = [f.path for f in querylog.handle(log).files if f.path.endswith(".changelog")]
    store = "state/0/0/left-keyToNumValues/"
    first, second = sorted(log / name for name in needed if name.startswith(store))
    return [log, first, second]


def replace_parent(changelog: Path) -> None:
    """Let a changelog build on a version of another attempt."""
    original = read_changelog(changelog.read_bytes(), "lz4", str(changelog))
    version = int(changelog.name.partition("_")[0]) - 1
    stranger = StateVersion(version, "00000000-0000-0000-0000-000000000000")
    lineage = (*original.lineage[:-1], stranger)
    changelog.write_bytes(
        write_changelog(type(original)(original.version, lineage, original.entries), "lz4")
    )


def test_a_changelog_that_builds_on_a_stranger_cannot_be_restored(
    chain: list[Path], tmp_path: Path
) -> None:
    log, _, newest = chain
    replace_parent(newest)
    assert not querylog.verify(log).ok
    assert isinstance(refusal(log, tmp_path), NotRestorable)


def test_a_changelog_in_the_middle_with_the_wrong_lineage_is_found(chain: list[Path]) -> None:
    log, middle, _ = chain
    replace_parent(middle)
    problem = only_problem(log)
    assert (problem.path, problem.what) == (str(middle), "changelog has the wrong lineage")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (f"offsets/{BATCH}", "v1", "v3"),
        (f"commits/{BATCH}", "v2", "v9"),
        ("state/0/_metadata/metadata", "v1", "v5"),
        (f"offsets/{BATCH}", "RocksDBStateStoreProvider", "AcmeStateStoreProvider"),
        (f"offsets/{BATCH}", '"lz4"', '"lzf"'),
    ],
)
def test_what_is_foreign_is_refused_by_name(
    log: Path, tmp_path: Path, file: str, old: str, new: str
) -> None:
    forget_checksums(log)
    text = (log / file).read_text()
    assert old in text
    (log / file).write_text(text.replace(old, new, 1))
    assert any(new.strip('"') in p.what for p in querylog.verify(log).problems)
    assert new.strip('"') in str(refusal(log, tmp_path))


def test_input_files_that_vanished_are_found_only_where_they_would_be_read(tmp_path: Path) -> None:
    log = unpack(f"{NEWEST}/stateless.hashmap", tmp_path)
    inputs = tmp_path / "in put"
    inputs.mkdir()
    for entry in (log / "sources/0").glob("[0-9]*"):
        encoded = str(inputs).replace(" ", "%20")
        moved = re.sub(
            r"file:///tmp/[^\"]*/(\d)\.json", rf"file://{encoded}/\1.json", entry.read_text()
        )
        entry.write_text(moved)
    forget_checksums(log)
    for n in range(5):
        (inputs / f"{n}.json").write_text("{}")
    assert querylog.verify(log, 2).ok
    (inputs / "1.json").unlink()
    assert querylog.verify(log, 2).ok  # it is in the state already
    (inputs / "4.json").unlink()
    assert querylog.verify(log).ok
    assert only_problem(log, 2).path == str(inputs / "4.json")


@pytest.mark.parametrize("file", [f"commits/{BATCH}", f"offsets/{BATCH}"])
def test_an_empty_file_after_a_power_cut_is_told_and_the_batch_before_is_shown(
    log: Path, tmp_path: Path, file: str
) -> None:
    forget_checksums(log)
    (log / file).write_bytes(b"")
    found = querylog.inspect(log)
    assert found.restorable == (0, 1, 2, 3)
    assert found.state_batch == 3
    assert found.operators[0].keys
    assert str(log / file) in found.not_restorable[BATCH]
    assert any(p.path == str(log / file) for p in querylog.verify(log).problems)
    assert str(log / file) in str(refusal(log, tmp_path))
    querylog.copy(log, tmp_path / "before", batch=3)
    assert querylog.verify(tmp_path / "before").ok


def test_a_broken_plan_of_the_next_batch_can_be_left_behind(log: Path, tmp_path: Path) -> None:
    (log / "offsets/5").write_bytes(b"")
    assert any(p.path == str(log / "offsets/5") for p in querylog.verify(log).problems)
    assert refusal(log, tmp_path).hint == "Batches that can be restored: 0-4."
    querylog.copy(log, tmp_path / "without", batch=BATCH)
    assert querylog.verify(tmp_path / "without").ok


# -- which batch -----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [-1, 5, 99])
def test_a_batch_that_is_not_there_is_refused_with_those_that_are(
    log: Path, tmp_path: Path, batch: int
) -> None:
    error = refusal(log, tmp_path, batch)
    assert isinstance(error, NotRestorable)
    assert error.hint == "Batches that can be restored: 0-4."
    assert not querylog.verify(log, batch).ok


def test_a_batch_whose_state_was_cleaned_up_is_refused_with_those_that_remain(
    log: Path, tmp_path: Path
) -> None:
    for path in log.glob("state/0/*/1_*"):
        path.unlink()
    error = refusal(log, tmp_path, 0)
    assert isinstance(error, NotRestorable)
    assert "Batches that can be restored" in (error.hint or "")
    found = querylog.inspect(log)
    assert 0 not in found.restorable
    assert "missing" in found.not_restorable[0]


# -- the target ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["directory", "empty directory", "file", "dangling link"])
def test_a_target_that_exists_is_left_alone(log: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "there"
    if kind == "file":
        target.write_text("mine")
    elif kind == "dangling link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.mkdir()
        if kind == "directory":
            (target / "mine").write_text("mine")
    with pytest.raises(DestinationExists, match="exists already"):
        querylog.copy(log, target)
    assert not (tmp_path / "nowhere").exists()
    assert kind != "directory" or (target / "mine").read_text() == "mine"


def test_a_target_inside_the_query_log_is_refused(log: Path) -> None:
    before = fingerprint(log)
    with pytest.raises(UsageError, match="inside the query log"):
        querylog.copy(log, log / "copies/one")
    assert fingerprint(log) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24k", "holdfast-test", str(mount)],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        if os.environ.get("CI") == "true":
            pytest.fail(f"cannot mount a small disk: {made.stderr}")
        pytest.skip(f"needs root to mount a small disk: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk_leaves_nothing_behind(log: Path, small_disk: Path) -> None:
    with pytest.raises(StorageError) as refused:
        querylog.copy(log, small_disk / "copy")
    assert "space" in str(refused.value).lower()
    assert refused.value.hint
    assert list(small_disk.iterdir()) == []


def test_a_read_only_target_is_refused(log: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorageError, match=re.escape(str(small_disk))) as refused:
        querylog.copy(log, small_disk / "copy")
    assert refused.value.hint


def test_linking_across_disks_is_refused_with_the_way_out(log: Path, small_disk: Path) -> None:
    with pytest.raises(StorageError) as refused:
        querylog.copy(log, small_disk / "copy", link=True)
    assert "link" in str(refused.value)
    assert list(small_disk.iterdir()) == []


# -- a query that runs -----------------------------------------------------------------------------


def test_a_log_that_grows_while_it_is_read_belongs_to_a_running_query(log: Path) -> None:
    from holdfast.querylog.activity import find_activity
    from holdfast.querylog.log import open_log

    opened = open_log(log)
    (log / "offsets/5").write_text((log / "offsets/4").read_text())
    found = find_activity(opened, now=time.time())
    assert found.running
    assert "offsets/5" in found.reason
    assert "copy" in (found.advice or "")


def test_a_process_with_a_file_open_is_a_running_query(log: Path) -> None:
    holder = subprocess.Popen(
        ["sh", "-c", "exec 3<commits/0; echo ready; read wait"],
        cwd=log,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        found = querylog.inspect(log, clock=lambda: time.time() + 10**6).activity
        assert found.running
        assert str(holder.pid) in found.reason
    finally:
        holder.kill()
        holder.communicate()


def test_a_log_written_a_moment_ago_may_be_in_use(log: Path) -> None:
    written = max(p.stat().st_mtime for p in log.rglob("*"))
    soon = querylog.inspect(log, clock=lambda: written + 5).activity
    assert (soon.running, soon.maybe_running) == (False, True)
    later = querylog.inspect(log, clock=lambda: written + 3600).activity
    assert (later.running, later.maybe_running) == (False, False)
    assert later.advice is None


def test_a_file_cleaned_up_during_the_copy_is_explained(log: Path, tmp_path: Path) -> None:
    doomed = log / "commits/4"

    def clean_up(done: int, total: int) -> None:
        for path in [doomed, *log.glob("state/0/*/*.changelog"), *log.glob("state/0/*/*.zip")]:
            path.unlink(missing_ok=True)

    with pytest.raises(QueryLogError, match="vanished") as refused:
        querylog.copy(log, tmp_path / "copy", progress=clean_up)
    assert "running" in (refused.value.hint or "")
    assert not (tmp_path / "copy").exists()
