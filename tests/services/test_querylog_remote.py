"""Query logs on S3 and HDFS are looked into, checked and copied like local ones."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import querylog
from holdfast.errors import DestinationExists, NotAQueryLog, NotRestorable
from holdfast.storage import create_tree, open_storage
from tests.compat.samples import NEWEST, unpack
from tests.services.servers import S3Server
from tests.spark.backends import ROCKSDB_2_CHANGELOG
from tests.spark.inputs import FILES, Inputs
from tests.spark.running import run
from tests.spark.workloads import WORKLOADS


@pytest.fixture(params=["s3", "hdfs"])
def remote(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """A place on the server for each name."""
    server = request.getfixturevalue(request.param)
    if request.param == "hdfs":
        request.getfixturevalue("spark")
    base = f"s3a://{server.bucket}" if isinstance(server, S3Server) else server
    here = f"{base}/querylog-{secrets.token_hex(4)}"
    return lambda name: f"{here}/{name}"


def put_as_it_is(log: Path, location: str) -> None:
    """As Spark would have written it there: without Hadoop's local checksums."""
    source = open_storage(log)
    tree = create_tree(location, seal="metadata")
    for file in source.list():
        if not file.path.rpartition("/")[2].startswith("."):
            tree.copy(source, file.path, file.path)
    tree.publish()


@pytest.mark.parametrize(
    "sample", ["transform-with-state.rocksdb-2-changelog", "inner-join.hashmap"]
)
def test_a_remote_log_is_inspected_verified_and_copied_anywhere(
    remote: Callable[[str], str], sample: str, tmp_path: Path
) -> None:
    local = unpack(f"{NEWEST}/{sample}", tmp_path)
    log = remote("log")
    put_as_it_is(local, log)
    here, there = querylog.inspect(local), querylog.inspect(log)
    assert there.operators == here.operators
    assert there.restorable == here.restorable
    assert querylog.verify(log).ok
    querylog.copy(log, remote("copy"), batch=2)
    assert querylog.verify(remote("copy"), 2).ok
    querylog.copy(remote("copy"), tmp_path / "down")
    assert querylog.verify(tmp_path / "down").ok
    checksums = [
        (f.path, f.crc32c) for f in querylog.handle(local, 2).files if "/v2/" not in f.path
    ]
    downs = [(f.path, f.crc32c) for f in querylog.handle(tmp_path / "down").files]
    assert checksums == [pair for pair in downs if "/v2/" not in pair[0]]


def test_a_damaged_remote_log_is_refused_with_the_file_named(
    remote: Callable[[str], str], tmp_path: Path
) -> None:
    local = unpack(f"{NEWEST}/aggregation.rocksdb-1", tmp_path)
    table = next((local / "state/0/0/SSTs").glob("*.sst"))
    data = bytearray(table.read_bytes())
    data[20] ^= 1
    table.write_bytes(data)
    put_as_it_is(local, remote("log"))
    found = [batch for batch in range(5) if not querylog.verify(remote("log"), batch).ok]
    assert found
    problems = querylog.verify(remote("log"), found[0]).problems
    assert any(table.name in problem.path for problem in problems)
    with pytest.raises(NotRestorable):
        querylog.copy(remote("log"), tmp_path / "copy", batch=9)


def test_a_remote_target_that_exists_is_left_alone(
    remote: Callable[[str], str], tmp_path: Path
) -> None:
    local = unpack(f"{NEWEST}/stateless.hashmap", tmp_path)
    querylog.copy(local, remote("copy"))
    before = open_storage(remote("copy")).list()
    with pytest.raises(DestinationExists):
        querylog.copy(local, remote("copy"), batch=2)
    assert open_storage(remote("copy")).list() == before
    with pytest.raises(NotAQueryLog):
        querylog.inspect(remote("nothing-here"))


def test_state_on_an_object_store_is_read_without_a_connector(
    s3: S3Server, spark: SparkSession, tmp_path: Path
) -> None:
    local = unpack(f"{NEWEST}/aggregation.rocksdb-2-changelog", tmp_path)
    log = f"s3a://{s3.bucket}/state-{secrets.token_hex(4)}"
    put_as_it_is(local, log)
    assert _rows(spark, log) == _rows(spark, str(local))


def _rows(spark: SparkSession, location: str) -> list[str]:
    return sorted(str(row) for row in querylog.read_state(spark, location).collect())


def test_a_query_on_hdfs_resumes_from_a_copy_exactly(
    hdfs: str, spark: SparkSession, tmp_path: Path
) -> None:
    workload = next(w for w in WORKLOADS if w.name == "transform-with-state")
    inputs = Inputs(tmp_path / "in")
    inputs.deliver(range(4))
    here = f"{hdfs}/resume-{secrets.token_hex(4)}"
    backend = ROCKSDB_2_CHANGELOG
    base = run(spark, workload, backend, inputs, f"{here}/log")
    querylog.copy(f"{here}/log", f"{here}/copy", batch=1)
    inputs.deliver(range(4, FILES))
    undisturbed = run(spark, workload, backend, inputs, tmp_path / "undisturbed")
    resumed = run(spark, workload, backend, inputs, f"{here}/copy")
    assert base.rows_through(1) + resumed.rows() == undisturbed.rows()
