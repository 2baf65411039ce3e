"""The state handle is sufficient and minimal, on query logs that Spark wrote.

That a query really restarts from the handle's files alone is proved with Spark in
``tests/spark/test_matrix.py``; here every file is taken away or damaged in turn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast import querylog
from holdfast.errors import QueryLogError
from holdfast.querylog.checksums import hadoop_checksum_path, spark_checksum_path
from tests.compat.samples import NEWEST, unpack

BACKENDS = ("hashmap", "rocksdb-1", "rocksdb-1-changelog", "rocksdb-2-changelog")
SAMPLES = [
    *(f"{NEWEST}/aggregation.{backend}" for backend in BACKENDS),
    f"{NEWEST}/inner-join.rocksdb-2-changelog",
    f"{NEWEST}/outer-join-state-3.rocksdb-1",
    f"{NEWEST}/transform-with-state.rocksdb-2-changelog",
    f"{NEWEST}/stateless.hashmap",
]


@pytest.fixture(params=SAMPLES)
def minimal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy: it holds the handle's files and the checksums beside them, nothing else."""
    log = unpack(request.param, tmp_path)
    copied = tmp_path / "copied"
    querylog.copy(log, copied, batch=querylog.inspect(log).committed[-2])
    return copied


def _without_checksums(log: Path) -> None:
    """As on HDFS or S3: only what files say about themselves can tell damage."""
    for path in [p for p in log.rglob("*.crc") if p.is_file()]:
        path.unlink()


def test_a_copy_holds_the_handle_and_nothing_else(minimal: Path) -> None:
    files = {file.path for file in querylog.handle(minimal).files}
    beside = {f(path) for path in files for f in (hadoop_checksum_path, spark_checksum_path)}
    beside |= {hadoop_checksum_path(path) for path in beside}
    found = {str(p.relative_to(minimal)) for p in minimal.rglob("*") if p.is_file()}
    assert files <= found <= files | beside


def test_no_file_of_the_handle_can_be_missing(minimal: Path) -> None:
    batch = querylog.inspect(minimal).batch
    for file in querylog.handle(minimal).files:
        path = minimal / file.path
        if file.path == "metadata":
            continue  # without it the directory is no query log at all
        data = path.read_bytes()
        path.unlink()
        problems = querylog.verify(minimal, batch).problems
        assert problems, f"{file.path} is not missed"
        # Of a base that is gone nobody knows the name; what should have replaced it is named.
        assert any(Path(p.path).parent == path.parent for p in problems), (file.path, problems)
        path.write_bytes(data)
    assert querylog.verify(minimal).ok


def test_no_file_of_the_handle_can_be_cut_short(minimal: Path) -> None:
    _without_checksums(minimal)
    seed = random.randrange(2**32)
    for file in querylog.handle(minimal).files:
        path = minimal / file.path
        data = path.read_bytes()
        path.write_bytes(
            data[: _place_to_cut(data, file.path, random.Random(f"{seed}{file.path}"))]
        )
        assert _names(minimal, path), f"{file.path} cut short is not noticed (seed {seed})"
        path.write_bytes(data)


@pytest.mark.parametrize("with_checksums", [True, False])
def test_no_state_file_of_the_handle_can_be_altered(minimal: Path, with_checksums: bool) -> None:
    if not with_checksums:
        _without_checksums(minimal)
    seed = random.randrange(2**32)
    for file in querylog.handle(minimal).files:
        path = minimal / file.path
        if not with_checksums and not _checks_itself(file.path):
            continue
        data = bytearray(path.read_bytes())
        at = _meaningful_byte(bytes(data), file.path, random.Random(f"{seed}{file.path}"))
        data[at] ^= 0x5A
        path.write_bytes(data)
        assert _names(minimal, path), f"{file.path} altered at {at} is not noticed (seed {seed})"
        data[at] ^= 0x5A
        path.write_bytes(data)


def _names(log: Path, path: Path) -> bool:
    try:
        problems = querylog.verify(log).problems
    except QueryLogError as error:
        return str(path) in str(error)
    return any(p.path == str(path) for p in problems)


def _place_to_cut(data: bytes, path: str, chance: random.Random) -> int:
    """Between two entries of a source's log a cut leaves a shorter log, which only sums notice."""
    places: Sequence[int] = range(len(data))
    if path.startswith("sources/"):
        places = [at for at in places if b"\n" not in data[max(at - 1, 0) : at + 1]]
    return chance.choice(places)


def _checks_itself(path: str) -> bool:
    return path.endswith((".sst", ".delta", ".snapshot", ".changelog"))


def _meaningful_byte(data: bytes, path: str, choose: random.Random) -> int:
    # Padding of a table's footer and the end mark of an LZ4 stream mean nothing.
    if path.endswith(".sst"):
        return choose.randrange(len(data) - 53)
    if _checks_itself(path):
        return choose.randrange(21, len(data) - 21)
    return choose.randrange(len(data))
