"""Query logs saved from real Spark are understood to the last file."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import querylog
from tests.compat.samples import SAMPLES, unpack


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_saved_log_is_inspected_verified_and_copied(sample: str, tmp_path: Path) -> None:
    log = unpack(sample, tmp_path)
    found = querylog.inspect(log)
    assert found.committed == tuple(range(len(found.committed)))
    assert found.restorable == found.committed
    assert not found.unfinished
    assert all(op.keys is not None and op.keys_exact for op in found.operators)
    for batch in found.restorable:
        # The input was not saved; verify says so for batches that would read it again.
        problems = querylog.verify(log, batch).problems
        assert all("input file has vanished" in problem.what for problem in problems)
        copied = tmp_path / f"copy-{batch}"
        report = querylog.copy(log, copied, batch)
        assert querylog.verify(copied).ok
        assert querylog.inspect(copied).restorable == (batch,)
        assert report.files == len(querylog.handle(copied).files)


@pytest.mark.parametrize(
    ("sample", "operators"),
    [
        ("aggregation.hashmap", [("stateStoreSave", "hashmap", "1", 2, 11)]),
        ("aggregation.rocksdb-1", [("stateStoreSave", "rocksdb", "1", 2, 11)]),
        (
            "aggregation.rocksdb-1-changelog",
            [("stateStoreSave", "rocksdb", "1 + changelog", 2, 11)],
        ),
        (
            "aggregation.rocksdb-2-changelog",
            [("stateStoreSave", "rocksdb", "2 + changelog", 2, 11)],
        ),
        ("global-aggregation.rocksdb-1", [("stateStoreSave", "rocksdb", "1", 1, 1)]),
        ("stateless.hashmap", []),
    ],
)
def test_what_inspect_says_about_a_saved_log_does_not_change(
    sample: str, operators: list[tuple[str, str, str, int, int]], tmp_path: Path
) -> None:
    found = querylog.inspect(unpack(f"spark-4.3.0/{sample}", tmp_path)).operators
    assert [(o.name, o.backend, o.format, o.partitions, o.keys) for o in found] == operators


def test_a_file_source_that_had_read_nothing_yet_brings_no_log_along(tmp_path: Path) -> None:
    log = unpack("spark-4.3.0/inner-join.hashmap", tmp_path)
    for batch in (0, 1):
        entry = log / f"offsets/{batch}"
        *lines, _ = entry.read_text().split("\n")
        entry.write_text("\n".join([*lines, "-"]))
        (log / f"offsets/.{batch}.crc").unlink()
    querylog.copy(log, tmp_path / "copy", batch=1)
    assert not (tmp_path / "copy/sources/1").exists()
    assert (tmp_path / "copy/sources/0").exists()
    vanished = {Path(p.path).parent.name for p in querylog.verify(log, 1).problems}
    assert vanished == {"left", "right"}, "all its files would be read again"
