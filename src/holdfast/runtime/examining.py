"""Is everything there that an attempt needs to go on? State files are looked for, not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.checkpoints.metadata import CheckpointMetadata, Transaction
from holdfast.checkpoints.store import CheckpointStore
from holdfast.errors import HoldfastError, MissingFile, NotRestorable, QueryLogError, StorageError
from holdfast.protocol.flow import NOTHING
from holdfast.protocol.graph import Graph, SinkUse
from holdfast.protocol.recovery import lagging
from holdfast.querylog.snapshots import newest_commit, snapshot
from holdfast.runtime.attempts import base_of, newest_of, origin_of, standing
from holdfast.runtime.channels import decode_segment
from holdfast.runtime.epochs import owned_transactions
from holdfast.runtime.gates import channel_positions
from holdfast.runtime.settlements import Settlements
from holdfast.runtime.unstaged import Unstaged
from holdfast.runtime.work import Attempt
from holdfast.sinks import EpochSink
from holdfast.storage import open_storage


def problem_of(attempt: Attempt, graph: Graph, store: CheckpointStore) -> str | None:
    """What is missing, damaged, or left behind by the job's own checkpoints."""
    try:
        stands = standing(attempt, graph).batches
        for uid in graph.regions:
            _look_at(attempt, graph, uid)
        _refuse_lagging(attempt, store, stands)
        base = base_of(attempt, store.completed, store.damaged)
        for use in graph.sinks.values():
            if isinstance(use.sink, EpochSink):
                _look_at_sink(attempt, use, base, stands[use.region])
    except (QueryLogError, StorageError) as error:
        refuse_outage(error)
        return f"{error.message} {where(error)}".strip()
    return None


def refuse_outage(error: HoldfastError) -> None:
    """A disk that is full, storage that does not answer: no file is lost, and none is passed over.

    The caller tries again later, as its restart strategy says.
    """
    if error.retryable:
        raise error


def where(error: HoldfastError) -> str:
    """The file that an error is about."""
    path = error.ids.get("path")
    return f"[{path}]" if path else ""


def _refuse_lagging(attempt: Attempt, store: CheckpointStore, stands: Mapping[str, int]) -> None:
    """Batches that are to be run again (``replaying``) are none that the query log has lost."""
    known = newest_of(attempt, store.completed, store.damaged) or origin_of(attempt)
    cuts = {region.uid: region.cut for region in known.regions} if known is not None else {}
    for uid in lagging(stands, cuts):
        assert known is not None
        raise NotRestorable(
            f"the query log of region {uid!r} ends with batch {stands[uid]}, although checkpoint "
            f"{known.id} includes batch {cuts[uid]}",
            path=attempt.region(uid),
        )


def _look_at(attempt: Attempt, graph: Graph, uid: str) -> None:
    location = attempt.region(uid)
    commit = newest_commit(location)
    if commit is None:
        return
    snapshot(location, commit.batch)
    positions = channel_positions(list(commit.offsets.values()))
    for channel in graph.inputs(uid):
        newest = newest_commit(attempt.region(channel))
        end = newest.batch + 1 if newest is not None else 0
        _look_at_segments(attempt, channel, range(positions.get(channel, 0), end))


def _look_at_sink(
    attempt: Attempt, use: SinkUse, base: CheckpointMetadata | None, last: int
) -> None:
    """Rows that no checkpoint covers, and those that one has promised and a commit still needs."""
    snapshot = base.region(use.region) if base is not None else None
    covered = snapshot.cut if snapshot is not None else NOTHING
    channel = open_storage(attempt.storage.locate(f"channels/{use.region}"))
    unstaged = Unstaged(channel, use.uid).find(covered, last)
    needed = set(range(covered + 1, last + 1))
    if unstaged is not None:
        needed.discard(unstaged[0])
    for transaction in owned_transactions(base).get(use.uid, []):
        if use.sink.keeps_rows and not _is_settled(attempt, transaction):
            needed.update(range(transaction.first, min(transaction.end, last + 1)))
    _look_at_segments(attempt, use.region, sorted(needed))


def _is_settled(attempt: Attempt, transaction: Transaction) -> bool:
    return Settlements(attempt.storage, transaction.sink).has(transaction.checkpoint)


def _look_at_segments(attempt: Attempt, channel: str, batches: Iterable[int]) -> None:
    """Every segment that somebody has still to read."""
    folder = open_storage(attempt.storage.locate(f"channels/{channel}"))
    sizes = {info.path: info.size for info in folder.list()}
    for batch in batches:
        path = f"log/{batch}"
        if path not in sizes:
            raise MissingFile("a segment that is to be read is missing", path=folder.locate(path))
        segment = decode_segment(batch, folder.read(path), folder.locate(path))
        for name, size in segment.files:
            file = f"segments/{segment.folder}/{name}"
            if sizes.get(file) != size:
                raise MissingFile(
                    "a file of a segment is missing or cut short", path=folder.locate(file)
                )
