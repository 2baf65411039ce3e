"""Copying a query log at a batch: a new directory that is complete on its own, or not there."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath

from holdfast.errors import FileMissing, UsageError
from holdfast.querylog.batches import METADATA, encode_metadata, new_query_id
from holdfast.querylog.checksums import (
    encode_hadoop_checksum,
    hadoop_checksum_path,
    spark_checksum_path,
)
from holdfast.querylog.log import QueryLog, open_log
from holdfast.querylog.needs import Plan, Role
from holdfast.querylog.operators import decode_operator, encode_operator, relocated
from holdfast.querylog.progress import Meter, Progress, in_parallel
from holdfast.querylog.selection import restorable_plan
from holdfast.storage import Storage, Tree, create_tree, open_storage


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What was copied."""

    source: str
    destination: str
    batch: int
    query_id: str
    files: int
    bytes: int
    linked: bool
    unfinished: int | None
    """The batch whose plan came along, to be run again with the same offsets."""


def copy(
    location: str | PathLike[str],
    destination: str | PathLike[str],
    batch: int | None = None,
    *,
    new_id: bool = False,
    link: bool = False,
    progress: Progress | None = None,
) -> CopyReport:
    """Make a self-contained query log at ``destination``, which must not exist.

    Without ``batch`` the copy goes on where the original stands: at its newest committed batch,
    and with the plan of the batch that was running, if any, so that it is run again with the same
    offsets. With ``batch`` it goes back to that batch and knows nothing of later ones.

    1. Work out the state handle; refuse if anything is missing.
    2. Copy (or link) its files into a tree that nobody sees yet, with the checksum files beside
       them. Files that name their own location are written anew, and so is the id on request.
    3. Publish the tree. A process that dies before this point leaves no destination.
    """
    log = open_log(location)
    target = open_storage(fspath(destination))
    _refuse_inside(log.storage, target)
    plan = restorable_plan(log, batch)
    query_id = new_query_id() if new_id else log.query_id
    written = _rewritten(log, plan, target, query_id if new_id else None)
    copied = [f.path for f in plan.files if f.path not in written]
    copied += _checksum_files(log, copied)
    tree = create_tree(fspath(destination), seal=METADATA)
    try:
        _fill(tree, log, copied, written, link, progress)
        tree.publish()
    except FileMissing as error:
        path = str(error.ids.get("path", ""))
        raise log.missing(path.removeprefix(log.storage.uri).lstrip("/")) from error
    finally:
        tree.discard()
    return CopyReport(
        source=log.storage.uri,
        destination=target.uri,
        batch=plan.batch,
        query_id=query_id,
        files=len(plan.files),
        bytes=sum(f.size for f in plan.files),
        linked=link,
        unfinished=next((b for b in log.unfinished if f"offsets/{b}" in set(copied)), None),
    )


def _refuse_inside(source: Storage, target: Storage) -> None:
    if target.uri.startswith(source.uri.rstrip("/") + "/"):
        raise UsageError(
            "the destination lies inside the query log",
            hint="Choose a directory outside it: a query log is never modified.",
            path=target.uri,
        )


def _rewritten(
    log: QueryLog, plan: Plan, target: Storage, query_id: str | None
) -> dict[str, bytes]:
    """Files whose contents differ in the copy."""
    written = {METADATA: encode_metadata(query_id)} if query_id else {}
    for file in plan.files:
        if file.role is Role.OPERATOR:
            operator = decode_operator(log.read(file.path), log.storage.locate(file.path))
            if operator.version == 2:
                state_root = "/".join(file.path.split("/")[:2])
                moved = relocated(operator, _spark_location(target, state_root))
                written[file.path] = encode_operator(moved)
    for path, data in list(written.items()):
        if hadoop_checksum_path(path) in log.files:
            written[hadoop_checksum_path(path)] = encode_hadoop_checksum(data)
    return written


def _spark_location(target: Storage, path: str) -> str:
    location = target.locate(path)
    return f"file:{location}" if location.startswith("/") else location


def _checksum_files(log: QueryLog, paths: list[str]) -> list[str]:
    """Checksums that lie beside the files: a copy without them would hide damage from Spark."""
    beside = (f(path) for path in paths for f in (spark_checksum_path, hadoop_checksum_path))
    found = [path for path in beside if path in log.files]
    return found + [h for p in found if (h := hadoop_checksum_path(p)) in log.files]


def _fill(
    tree: Tree,
    log: QueryLog,
    copied: list[str],
    written: dict[str, bytes],
    link: bool,
    progress: Progress | None,
) -> None:
    meter = Meter(sum(log.files[path].size for path in copied), progress)
    put = tree.link if link else tree.copy

    def place(path: str) -> None:
        meter.add(put(log.storage, path, path))

    for path, data in written.items():
        tree.write(path, data)
    if link:
        for path in copied:  # a link is so quick that threads would only be in each other's way
            place(path)
    else:
        in_parallel(place, copied)
