"""Where a job goes on: a fresh attempt, the one that was interrupted, or one from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.checkpoints.metadata import CheckpointMetadata, decode, encode
from holdfast.checkpoints.restoring import contents, restore_region
from holdfast.checkpoints.store import read_checkpoint
from holdfast.errors import NotRestorable, UsageError
from holdfast.protocol.flow import NOTHING
from holdfast.protocol.graph import Graph
from holdfast.querylog.snapshots import newest_commit
from holdfast.runtime.channels import Segment, encode_segment
from holdfast.runtime.gates import channel_positions
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


def choose_attempt(
    work: WorkDirectory, graph: Graph, restore_path: str | None, fresh: bool
) -> Attempt:
    """The attempt to run in; a new one is complete before it is there."""
    if restore_path is not None:
        metadata, files = read_checkpoint(restore_path)
        refuse_misfit(graph, metadata, restore_path)
        with step("restore"):
            return work.begin(metadata.id, lambda tree, to: _fill(tree, to, metadata, files))
    current = work.current()
    if current is None or fresh:
        return work.begin(None)
    if current.ended is not None:
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


def _fill(tree: Tree, location: str, metadata: CheckpointMetadata, files: Storage) -> None:
    tree.write(_RESTORED, encode(metadata))
    for region in metadata.regions:
        to = f"regions/{region.uid}"
        restore_region(tree, files, region, to, f"{location}/{to}")
    for segment in metadata.in_flight:
        base = f"channels/{segment.channel}"
        folder = f"{segment.segment}-restored"
        for file in segment.files:
            tree.write(f"{base}/segments/{folder}/{file.path}", contents(files, file))
        entry = Segment(segment.segment, folder, tuple((f.path, f.size) for f in segment.files))
        tree.write(f"{base}/log/{segment.segment}", encode_segment(entry))


def base_of(
    attempt: Attempt, completed: Mapping[int, CheckpointMetadata]
) -> CheckpointMetadata | None:
    """The checkpoint that covers what sinks have got: the attempt's newest, or the restored one."""
    own = [m for m in completed.values() if m.attempt == attempt.number]
    if own:
        return own[-1]
    if attempt.restored_from is None:
        return None
    return decode(attempt.storage.read(_RESTORED), attempt.storage.locate(_RESTORED))


def standing(attempt: Attempt, graph: Graph) -> Standing:
    """Read from the query logs where the regions stand; ``NotRestorable`` if they do not fit."""
    batches, positions = {}, {}
    for uid in graph.regions:
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
