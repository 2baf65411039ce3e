"""Where a job goes on: a fresh attempt, the one that was interrupted, or one from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from holdfast.checkpoints.metadata import CheckpointMetadata, decode, encode
from holdfast.checkpoints.restoring import contents, link_file, restore_region
from holdfast.checkpoints.store import read_checkpoint
from holdfast.errors import NotRestorable, UsageError
from holdfast.protocol.flow import NOTHING
from holdfast.protocol.graph import Graph
from holdfast.querylog.snapshots import newest_commit, refuse_skipped
from holdfast.runtime.channels import Segment, encode_segment
from holdfast.runtime.gates import channel_positions
from holdfast.runtime.promises import Promises
from holdfast.runtime.replaying import Replay, base_of_replay
from holdfast.runtime.settlements import carry_over
from holdfast.runtime.work import Attempt, WorkDirectory
from holdfast.steps import step
from holdfast.storage import Storage, Tree

_RESTORED = "restored"


class AlreadyEnded(UsageError):
    """The job has finished or was cancelled, and nobody asked to begin again."""

    code = "ALREADY_ENDED"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where each region stands when the job goes on."""

    batches: Mapping[str, int]
    positions: Mapping[str, Mapping[str, int]]


def restored(
    work: WorkDirectory,
    graph: Graph,
    path: str,
    replay: Callable[[CheckpointMetadata], Replay | None] = lambda _: None,
) -> Attempt:
    """A new attempt from a checkpoint; every file is checked before the attempt is there."""
    metadata, files = read_checkpoint(path)
    refuse_misfit(graph, metadata, path)
    again = replay(metadata)
    before = work.current() if metadata.job_id == work.job_id else None

    def fill(tree: Tree, location: str) -> None:
        _fill(tree, location, metadata, files, _promised(graph, metadata))
        if before is not None:
            carry_over(before.storage, tree)
        if again is not None:
            again.write(tree)

    with step("restore"):
        return work.begin(metadata.id, fill)


def interrupted(work: WorkDirectory) -> Attempt | None:
    """The attempt that was running last, if there is one; refused if the job has ended."""
    current = work.current()
    if current is not None and current.ended is not None:
        raise AlreadyEnded(
            f"the job has ended: {current.ended}",
            hint="Start it anew with --fresh, or from a checkpoint with --from PATH.",
            work=work.location,
        )
    return current


def refuse_misfit(graph: Graph, metadata: CheckpointMetadata, path: str) -> None:
    """The checkpoint must have the regions and inputs of the job."""
    ours, theirs = set(graph.regions), {region.uid for region in metadata.regions}
    problems = [f"the job has region {uid!r}, the checkpoint has not" for uid in ours - theirs]
    problems += [f"the checkpoint has region {uid!r}, the job has not" for uid in theirs - ours]
    for region in metadata.regions:
        if region.uid in ours:
            channels = {i.uid for i in region.inputs if i.kind == "channel"}
            if channels != set(graph.inputs(region.uid)):
                problems.append(f"region {region.uid!r} reads other regions than it did")
            if region.output_mode != graph.regions[region.uid].output_mode:
                problems.append(f"region {region.uid!r} had output mode {region.output_mode!r}")
    if problems:
        raise NotRestorable(
            "the checkpoint does not fit the job: " + "; ".join(sorted(problems)),
            hint="Restore with the job that wrote it.",
            path=path,
        )


def _promised(graph: Graph, metadata: CheckpointMetadata) -> set[tuple[str, int]]:
    """Segments, by channel and number, whose rows a sink has still to commit."""
    return {
        (graph.sinks[transaction.sink].region, number)
        for transaction in metadata.transactions
        if transaction.sink in graph.sinks
        for number in range(transaction.first, transaction.end)
    }


def _fill(
    tree: Tree,
    location: str,
    metadata: CheckpointMetadata,
    files: Storage,
    promised: Collection[tuple[str, int]],
) -> None:
    tree.write(_RESTORED, encode(metadata))
    for region in metadata.regions:
        to = f"regions/{region.uid}"
        restore_region(tree, files, region, to, f"{location}/{to}")
    for segment in metadata.in_flight:
        base = f"channels/{segment.channel}"
        folder = f"{segment.segment}-restored"
        for file in segment.files:
            to = f"{base}/segments/{folder}/{file.path}"
            if (segment.channel, segment.segment) in promised:
                tree.write(to, contents(files, file))
            else:
                link_file(tree, files, file, to)
        entry = Segment(segment.segment, folder, tuple((f.path, f.size) for f in segment.files))
        tree.write(f"{base}/log/{segment.segment}", encode_segment(entry))


def newest_of(
    attempt: Attempt,
    completed: Mapping[int, CheckpointMetadata],
    damaged: Collection[int] = (),
) -> CheckpointMetadata | None:
    """The newest checkpoint that was taken in the attempt.

    Of one whose ``_metadata`` is damaged or gone the attempt itself remembers what it promised.
    """
    own = {n: m for n, m in completed.items() if m.attempt == attempt.number}
    return Promises(attempt.storage).newest(own, damaged)


def origin_of(attempt: Attempt) -> CheckpointMetadata | None:
    """The checkpoint that the attempt was restored from."""
    if attempt.restored_from is None:
        return None
    return decode(attempt.storage.read(_RESTORED), attempt.storage.locate(_RESTORED))


def base_of(
    attempt: Attempt,
    completed: Mapping[int, CheckpointMetadata],
    damaged: Collection[int] = (),
) -> CheckpointMetadata | None:
    """The checkpoint that covers what sinks have got: the attempt's newest, or the restored one."""
    own = newest_of(attempt, completed, damaged)
    return own or base_of_replay(attempt.storage) or origin_of(attempt)


def standing(attempt: Attempt, graph: Graph) -> Standing:
    """Read from the query logs where the regions stand; ``NotRestorable`` if they do not fit."""
    batches, positions = {}, {}
    for uid in graph.regions:
        refuse_skipped(attempt.region(uid))
        commit = newest_commit(attempt.region(uid))
        batches[uid] = commit.batch if commit is not None else NOTHING
        offsets = list(commit.offsets.values()) if commit is not None else []
        positions[uid] = channel_positions(offsets)
    for uid in graph.regions:
        for channel, position in positions[uid].items():
            if channel not in graph.regions or position > batches[channel] + 1:
                raise NotRestorable(
                    f"region {uid!r} has read {position} segments of {channel!r}, "
                    f"which has written {batches.get(channel, NOTHING) + 1}",
                    hint="The working directory is damaged or belongs to another version of the "
                    "job. Restore from a checkpoint with --from PATH.",
                    path=attempt.region(uid),
                )
    return Standing(batches, positions)
