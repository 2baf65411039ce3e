"""Checking every file that a batch needs, byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

from holdfast.errors import DamagedFile, HoldfastError, QueryLogError
from holdfast.querylog.batches import (
    commit_path,
    decode_commit,
    decode_metadata,
    decode_offsets,
)
from holdfast.querylog.changelog import StateVersion, read_changelog
from holdfast.querylog.checksums import (
    check_hadoop,
    check_spark,
    decode_spark_checksum,
    hadoop_checksum_path,
    spark_checksum_path,
)
from holdfast.querylog.hashmap import read_delta, read_snapshot
from holdfast.querylog.inputs import vanished_inputs
from holdfast.querylog.log import QueryLog, open_log
from holdfast.querylog.needs import NeededFile, Plan, Problem, Role, StoreVersion
from holdfast.querylog.operators import decode_operator
from holdfast.querylog.planning import plan_handle
from holdfast.querylog.progress import Meter, Progress, in_parallel
from holdfast.querylog.rocksdb import check_snapshot, decode_snapshot
from holdfast.querylog.schemas import decode_schema
from holdfast.querylog.selection import choices
from holdfast.querylog.sourcelog import decode_seen
from holdfast.querylog.sst import Table


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked and what is wrong."""

    uri: str
    batch: int | None
    files: int
    bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether a query can restart from the batch."""
        return not self.problems


def verify(
    location: str | PathLike[str], batch: int | None = None, progress: Progress | None = None
) -> Verification:
    """Check all that ``batch`` (the newest committed one by default) needs.

    1. The logs of batches have no gaps. 2. Every file exists and has the size it must have.
    3. Checksums, Spark's and Hadoop's, fit where there are any. 4. Every file can be decoded, with
    the checksums inside it. 5. Input files that would be read again are still there.
    """
    log = open_log(location)
    if batch is None and not log.committed:
        nothing = Problem(log.storage.locate("commits"), "no batch has been committed yet")
        return Verification(log.storage.uri, None, 0, 0, (nothing,))
    chosen = log.committed[-1] if batch is None else batch
    if chosen not in log.committed:
        what = f"batch {chosen} is not a committed batch of this query log"
        absent = Problem(log.storage.locate(commit_path(chosen)), what, choices(log))
        return Verification(log.storage.uri, chosen, 0, 0, (absent,))
    plan = plan_handle(log, chosen, with_unfinished=batch is None)
    meter = Meter(sum(f.size for f in plan.files), progress)

    def check(file: NeededFile) -> Problem | None:
        problem = _as_problem(lambda: check_file(log, plan, file))
        meter.add(file.size)
        return problem

    found = in_parallel(check, plan.files)
    lineages = in_parallel(lambda s: _as_problem(lambda: _check_lineage(log, plan, s)), plan.stores)
    problems = [
        *_gaps(log),
        *plan.problems,
        *(p for p in [*found, *lineages] if p is not None),
        *_inputs(log, chosen),
    ]
    return Verification(
        log.storage.uri,
        chosen,
        len(plan.files),
        sum(f.size for f in plan.files),
        tuple(dict.fromkeys(problems)),
    )


def _as_problem(check: Callable[[], None]) -> Problem | None:
    try:
        check()
    except HoldfastError as error:
        return Problem(str(error.ids.get("path", "")), error.message, error.hint)
    return None


def _gaps(log: QueryLog) -> list[Problem]:
    problems = []
    for folder in ("offsets", "commits"):
        batches = log.batches(folder)
        missing = sorted(set(range(batches[0], batches[-1] + 1)) - set(batches)) if batches else []
        if missing:
            problems.append(
                Problem(
                    log.storage.locate(f"{folder}/{missing[0]}"),
                    f"{folder} have a gap: batch {missing[0]} is missing"
                    + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""),
                    "`holdfast log copy --batch` makes a query log without the gap. Only a query "
                    "with asynchronous progress tracking leaves gaps on purpose.",
                )
            )
    return problems


def _inputs(log: QueryLog, batch: int) -> list[Problem]:
    try:
        return [
            Problem(
                path,
                "input file has vanished; Spark would silently leave out its rows",
                "Put the file back before restarting from this batch.",
            )
            for path in vanished_inputs(log, batch)
        ]
    except QueryLogError as error:
        return [Problem(str(error.ids.get("path", "")), error.message, error.hint)]


def check_file(log: QueryLog, plan: Plan, file: NeededFile) -> None:
    """Raise what is wrong with one file, if anything is."""
    data = log.read(file.path)
    path = log.storage.locate(file.path)
    if len(data) != file.size:
        raise DamagedFile("file changed while it was read", path=path)
    if (beside := hadoop_checksum_path(file.path)) in log.files:
        check_hadoop(data, log.read(beside), path)
    if file.role.is_state and (beside := spark_checksum_path(file.path)) in log.files:
        check_spark(data, decode_spark_checksum(log.read(beside), log.storage.locate(beside)), path)
    _decode(file.role, data, plan.codec, path)


def _decode(role: Role, data: bytes, codec: str, path: str) -> None:
    match role:
        case Role.QUERY_ID:
            decode_metadata(data, path)
        case Role.OFFSETS:
            decode_offsets(data, path)
        case Role.COMMIT:
            decode_commit(data, path)
        case Role.SOURCE_LOG:
            decode_seen(data, path)
        case Role.OPERATOR:
            decode_operator(data, path)
        case Role.SCHEMA:
            decode_schema(data, path)
        case Role.DELTA:
            _exhaust(read_delta(data, codec, path))
        case Role.SNAPSHOT:
            _exhaust(read_snapshot(data, codec, path))
        case Role.CHANGELOG:
            read_changelog(data, codec, path)
        case Role.ROCKSDB_ZIP:
            check_snapshot(data, path)
            decode_snapshot(data, path)
        case Role.ROCKSDB_TABLE:
            Table(data, path).check()
        case Role.SOURCE | Role.ROCKSDB_LOG:
            pass  # their contents belong to the connector and to RocksDB


def _exhaust(entries: object) -> None:
    for _ in entries:  # type: ignore[attr-defined]
        pass


def _check_lineage(log: QueryLog, plan: Plan, store: StoreVersion) -> None:
    """In format 2 each changelog must name the version before it."""
    previous: StateVersion | None = _version(store.files.base) if store.files.base else None
    for name in store.files.changes:
        version = _version(name)
        if version is None:
            return  # format 1 has no lineage
        path = f"{store.folder}/{name}"
        lineage = log.own_lineage(path, plan.codec)
        last = lineage[-1] if lineage else None
        if last != previous:
            raise DamagedFile(
                "changelog has the wrong lineage",
                path=log.storage.locate(path),
                builds_on=last,
                should_build_on=previous,
            )
        previous = version


def _version(name: str) -> StateVersion | None:
    number, underscore, unique_id = name.rpartition(".")[0].partition("_")
    return StateVersion(int(number), unique_id) if underscore else None
