"""Putting together what one life of a job consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.checkpoints.taking import Keeping
from holdfast.protocol.flow import Cut, Flow
from holdfast.protocol.graph import Graph
from holdfast.runtime.attempts import standing
from holdfast.runtime.channels import Channel
from holdfast.runtime.commits import Commits
from holdfast.runtime.epochs import SinkEpochs
from holdfast.runtime.feedback import refuse_feedback
from holdfast.runtime.fencing import Fence
from holdfast.runtime.gates import Gates
from holdfast.runtime.regions import RunningRegion
from holdfast.runtime.settlements import Settlements
from holdfast.runtime.snapshots import Snapshots
from holdfast.runtime.work import Attempt
from holdfast.settings import Settings, StorageKind
from holdfast.sinks import Distributed, EpochSink
from holdfast.storage import open_storage
from holdfast.storage.trees import delete_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY_LIMIT = 5 << 20
"""What storage ``jobmanager`` keeps of one snapshot."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The moving parts of a job in one attempt."""

    attempt: Attempt
    channels: dict[str, Channel]
    gates: Gates
    regions: dict[str, RunningRegion]
    sinks: list[SinkEpochs]
    commits: Commits
    snapshots: Snapshots


def assemble(
    graph: Graph,
    settings: Settings,
    spark: SparkSession,
    job_id: str,
    attempt: Attempt,
    on_cuts: Callable[[list[Cut]], None],
    fence: Fence,
) -> Parts:
    """Everything as the query logs of the attempt say it stands; nothing runs yet."""
    refuse_feedback(graph, job_id)
    delete_tree(attempt.storage, "pins")  # of snapshots that a crash interrupted
    stand = standing(attempt, graph)
    channels = {
        uid: Channel(uid, open_storage(attempt.storage.locate(f"channels/{uid}")), fence.check)
        for uid in graph.regions
        if _has_channel(graph, uid)
    }
    for uid, channel in channels.items():
        channel.recover(stand.batches[uid])
    inputs = {uid: graph.inputs(uid) for uid in graph.regions}
    gates = Gates(Flow(inputs, stand.batches, stand.positions), channels, graph.channels, on_cuts)
    regions = {
        uid: RunningRegion(
            region,
            attempt.region(uid),
            gates,
            channels.get(uid),
            graph.sinks_of(uid),
            settings,
            fence.check,
        )
        for uid, region in graph.regions.items()
    }
    sinks = [
        SinkEpochs(
            use,
            job_id,
            attempt.number,
            channels[use.region],
            gates,
            Settlements(attempt.storage, use.uid),
            fence.check,
        )
        for use in graph.sinks.values()
        if isinstance(use.sink, EpochSink)
    ]
    for sink in sinks:
        regions[sink.region].epochs.append(sink)
    for uid, running in regions.items():
        running.unstaged = _needs_no_staging(graph, settings, uid)
    snapshots = Snapshots(attempt, regions, channels, sinks, _keeping(settings), spark)
    return Parts(attempt, channels, gates, regions, sinks, Commits(sinks), snapshots)


def _has_channel(graph: Graph, uid: str) -> bool:
    staged = any(isinstance(use.sink, EpochSink) for use in graph.sinks_of(uid))
    return uid in graph.channels or staged


def _needs_no_staging(graph: Graph, settings: Settings, uid: str) -> bool:
    """Every batch is its own checkpoint, and its one sink is all that wants the rows."""
    sinks = graph.sinks_of(uid)
    only = len(sinks) == 1 and isinstance(sinks[0].sink, Distributed)
    return settings.every_batch and only and uid not in graph.channels


def _keeping(settings: Settings) -> Keeping:
    chosen = settings.checkpointing
    in_memory = chosen.storage is StorageKind.JOBMANAGER
    return Keeping(
        chosen.incremental and not in_memory,
        chosen.inline_threshold,
        MEMORY_LIMIT if in_memory else None,
    )
