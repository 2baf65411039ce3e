"""A job that runs: from its start to the state in which it ends."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Any

from holdfast import __version__
from holdfast.checkpoints.store import CheckpointStore
from holdfast.checkpoints.taking import Keeping
from holdfast.errors import HoldfastError
from holdfast.protocol.flow import NOTHING, Cut, Flow
from holdfast.protocol.graph import Graph
from holdfast.protocol.triggering import Cause
from holdfast.runtime.attempts import base_of, choose_attempt, standing
from holdfast.runtime.channels import Channel
from holdfast.runtime.commits import Commits
from holdfast.runtime.completion import Completion, Hooks, Identity
from holdfast.runtime.coordinator import Coordinator
from holdfast.runtime.epochs import SinkEpochs, owned_transactions
from holdfast.runtime.gates import Gates
from holdfast.runtime.history import History
from holdfast.runtime.regions import RunningRegion
from holdfast.runtime.snapshots import Snapshots
from holdfast.runtime.transactions import Listing, of_running
from holdfast.runtime.work import WorkDirectory
from holdfast.settings import Retention, Settings, StorageKind
from holdfast.sinks import CheckedSink, Distributed, EpochSink
from holdfast.spark.jvm_process import spark_is_there
from holdfast.spark.progress import BatchListener
from holdfast.steps import step
from holdfast.storage import open_storage
from holdfast.storage.trees import delete_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_PAUSE = 1.0
MEMORY_LIMIT = 5 << 20
"""What storage ``jobmanager`` keeps of one snapshot."""


class State(Enum):
    """Flink's job states, as far as they occur."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    SUSPENDED = "SUSPENDED"

    @property
    def is_over(self) -> bool:
        """Whether nothing runs any more."""
        return self in (State.FAILED, State.CANCELED, State.FINISHED, State.SUSPENDED)


class RegionFailed(HoldfastError):
    """A region's query died."""

    code = "REGION_FAILED"
    retryable = True


def checkpoint_directory(settings: Settings, work: WorkDirectory) -> str:
    """With storage ``jobmanager`` there need be none; ``_metadata`` is then kept at work."""
    chosen = settings.checkpointing.dir
    if chosen is None:
        return f"{work.location}/checkpoints"
    return f"{chosen.rstrip('/')}/{work.job_id}"


def history_directory(settings: Settings, work: WorkDirectory) -> str:
    """Where the statistics of the job's checkpoints are."""
    return f"{settings.history_dir.rstrip('/')}/{work.job_id}"


class RunningJob:
    """One run of a job, in one process."""

    def __init__(
        self,
        graph: Graph,
        settings: Settings,
        spark: SparkSession,
        hooks: Hooks,
        fresh: bool = False,
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.spark = spark
        self.state = State.CREATED
        self.failure: HoldfastError | None = None
        self.entered: dict[State, float] = {State.CREATED: time.time()}
        self._lock = threading.RLock()
        self._over = threading.Event()
        self.work = WorkDirectory(settings.work_dir, graph.name)
        self.job_id = self.work.job_id
        self._listener: BatchListener | None = None
        self._old_attempts_gone = False
        self._finishing = False
        self._ending = False
        self._find_standing(hooks, fresh)

    def _find_standing(self, hooks: Hooks, fresh: bool) -> None:
        settings, graph = self.settings, self.graph
        self.store = CheckpointStore(checkpoint_directory(settings, self.work))
        self.history = History(history_directory(settings, self.work))
        self.attempt = choose_attempt(self.work, graph, settings.restore_path, fresh)
        self._assemble(hooks)

    def _assemble(self, hooks: Hooks) -> None:
        delete_tree(self.attempt.storage, "pins")  # of snapshots that a crash interrupted
        stand = standing(self.attempt, self.graph)
        inputs = {uid: self.graph.inputs(uid) for uid in self.graph.regions}
        with_channel = [uid for uid in self.graph.regions if self._has_channel(uid)]
        self.channels = {uid: self._channel(uid) for uid in with_channel}
        for uid, channel in self.channels.items():
            channel.recover(stand.batches[uid])
        self.gates = Gates(
            Flow(inputs, stand.batches, stand.positions),
            self.channels,
            self.graph.channels,
            self._on_cuts,
        )
        self.regions = {
            uid: RunningRegion(
                region,
                self.attempt.region(uid),
                self.gates,
                self.channels.get(uid),
                self.graph.sinks_of(uid),
                self.settings,
            )
            for uid, region in self.graph.regions.items()
        }
        self.sinks = [
            SinkEpochs(use, self.job_id, self.attempt.number, self.channels[use.region], self.gates)
            for use in self.graph.sinks.values()
            if isinstance(use.sink, EpochSink)
        ]
        for sink in self.sinks:
            self.regions[sink.region].epochs.append(sink)
        for region in self.regions.values():
            region.unstaged = self._needs_no_staging(region)
        self.commits = Commits(self.sinks)
        self._snapshots = Snapshots(
            self.attempt, self.regions, self.channels, self.sinks, self._keeping(), self.spark
        )
        self.coordinator = self._coordinator(hooks)

    def _coordinator(self, hooks: Hooks) -> Coordinator:
        newest = self.store.latest
        restored = self.attempt.restored_from or 0
        at_least = max(newest.id if newest else 0, restored) + 1
        spark = str(self.spark.version)
        identity = Identity(self.job_id, self.graph.name, self.attempt.number, __version__, spark)
        settings = self.settings.checkpointing
        hooks = Hooks(hooks.on_snapshot, (*hooks.on_complete, self._forget_old_attempts))
        return Coordinator(
            settings,
            list(self.graph.regions),
            self.gates,
            self._snapshots,
            Completion(identity, settings, self.store, self.sinks, self.history, hooks),
            self.commits,
            lambda: self.work.next_checkpoint(at_least),
            self.fail,
        )

    def _forget_old_attempts(self, _: int) -> None:
        """This attempt has a checkpoint of its own now; nobody goes back to an older one."""
        if not self._old_attempts_gone:
            self._old_attempts_gone = True
            self.work.remove_older(self.attempt)

    def _has_channel(self, uid: str) -> bool:
        staged = any(isinstance(u.sink, EpochSink) for u in self.graph.sinks_of(uid))
        return uid in self.graph.channels or staged

    def _needs_no_staging(self, region: RunningRegion) -> bool:
        """Every batch is its own checkpoint, and its one sink is all that wants the rows."""
        sinks = self.graph.sinks_of(region.uid)
        only = len(sinks) == 1 and isinstance(sinks[0].sink, Distributed)
        return self.settings.every_batch and only and region.uid not in self.graph.channels

    def _channel(self, uid: str) -> Channel:
        location = self.attempt.storage.locate(f"channels/{uid}")
        return Channel(uid, open_storage(location))

    def _keeping(self) -> Keeping:
        chosen = self.settings.checkpointing
        in_memory = chosen.storage is StorageKind.JOBMANAGER
        return Keeping(
            chosen.incremental and not in_memory,
            chosen.inline_threshold,
            MEMORY_LIMIT if in_memory else None,
        )

    def _on_cuts(self, cuts: list[Cut]) -> None:
        self.coordinator.cuts_reached(cuts)

    # From start to end

    def start(self) -> None:
        """Recover the sinks, build all frames, start all queries; all of it or nothing runs."""
        try:
            self._start()
        except BaseException:
            self._end(State.FAILED)
            raise

    def _start(self) -> None:
        with step("start"):
            for uid, region in self.regions.items():
                producers = {u: self.regions[u] for u in self.graph.inputs(uid)}
                region.build(self.spark, self.graph.sources, producers)
            for sink in self.sinks:
                sink.prepare(self.spark, self.regions[sink.region].schema)
            for use in self.graph.sinks.values():
                if isinstance(use.sink, CheckedSink):
                    use.sink.check(self.spark, self.regions[use.region].schema)
            self._recover_sinks()
        self._runs: dict[str, RunningRegion] = {}
        self._early: list[tuple[Any, ...]] = []
        self._listener = BatchListener(self.spark, self._on_batch, self._on_end)
        self._enter(State.RUNNING)
        for region in self.regions.values():
            run = region.start(self.spark)
            with self._lock:
                self._runs[run] = region
                early, self._early = self._early, []
            for call, *values in early:
                call(*values)
        self.commits.start()
        self.coordinator.start()
        if self.settings.every_batch or any(sink.waits_for_checkpoint for sink in self.sinks):
            self._checkpoint_batch()
        self._look_for_ends()

    def _recover_sinks(self) -> None:
        base = base_of(self.attempt, self.store.completed)
        owned = owned_transactions(base)
        for sink in self.sinks:
            snapshot = base.region(sink.region) if base is not None else None
            position = snapshot.cut + 1 if snapshot is not None else NOTHING + 1
            committed = self.gates.last_batch(sink.region)
            sink.recover(owned.get(sink.uid, []), position, committed)

    def _region_of(self, run: str, *event: Any) -> RunningRegion | None:
        """The region of a run; an event may come before ``start`` has returned its id."""
        with self._lock:
            region = self._runs.get(run)
            if region is None:
                self._early.append(event)
            return region

    def _on_batch(self, run: str, batch: int, report: dict[str, Any]) -> None:
        region = self._region_of(run, self._on_batch, run, batch, report)
        if region is None:
            return
        try:
            self.gates.committed(region.uid, batch, region.batch_committed(batch, report))
            self._snapshots.delete_segments(self.gates.take_unneeded())
            if self.settings.every_batch:
                self._checkpoint_batch()
            self._look_for_ends()
        except Exception as error:
            _log.exception("batch %s of region %s", batch, region.uid)
            self.fail(RegionFailed(f"batch {batch} was not taken note of: {error!r}"))

    def _checkpoint_batch(self) -> None:
        """Every batch is its own checkpoint; if that fails, the rows wait for another one."""

        def look(future: Future[int]) -> None:
            if future.exception() is not None and self.state is State.RUNNING:
                again = threading.Timer(_PAUSE, self._checkpoint_batch)
                again.daemon = True
                again.start()

        self.coordinator.request(Cause.PERIODIC).add_done_callback(look)

    def _on_end(self, run: str, error: str | None) -> None:
        region = self._region_of(run, self._on_end, run, error)
        if region is None:
            return
        region.finished = True
        if error is not None:
            self.fail(RegionFailed(f"region {region.uid!r} failed: {error}", region=region.uid))
        elif self.state is State.RUNNING:
            self.gates.end(region.uid)
            self._look_for_ends()

    def _look_for_ends(self) -> None:
        if self.state is not State.RUNNING:
            return
        for region in self.regions.values():
            if not region.finished and region.input_has_ended():
                threading.Thread(target=region.finish, name=f"finish-{region.uid}").start()
        if all(region.finished for region in self.regions.values()):
            threading.Thread(target=self._finish, name="finish").start()

    def _finish(self) -> None:
        """All input has been read: the last checkpoint commits everything."""
        with self._lock:
            if self.state is not State.RUNNING or self._finishing:
                return
            self._finishing = True
        self.coordinator.pause()
        if self.settings.checkpointing.after_tasks_finish:
            try:
                self.coordinator.request(Cause.FINAL).result()
            except HoldfastError as error:
                self.fail(error)
                return
        while not self.commits.wait(1.0):
            if self.state is not State.RUNNING:
                return  # somebody ends the job otherwise
        self._end(State.FINISHED)

    def fail(self, error: HoldfastError) -> None:
        """Something happened that the job cannot go on with."""
        with self._lock:
            if self.state is not State.RUNNING:
                return
            self.failure = error
            self._enter(State.FAILING)
        threading.Thread(target=self._end, args=(State.FAILED,), name="fail").start()

    def cancel(self) -> None:
        """End the job for good; what remains of its checkpoints is a setting."""
        with self._lock:
            if self.state is not State.RUNNING:
                return
            self._enter(State.CANCELLING)
        threading.Thread(target=self._end, args=(State.CANCELED,), name="cancel").start()

    def suspend(self) -> None:
        """Stop; the next run goes on exactly here."""
        with self._lock:
            if self.state is not State.RUNNING:
                return
            self._enter(State.CANCELLING)
        self._end(State.SUSPENDED)

    def _end(self, state: State) -> None:
        """Whoever comes first ends the job; a Ctrl-C at the very end changes nothing any more."""
        with self._lock:
            if self._ending:
                return
            self._ending = True
        try:
            self.gates.stop()
            for sink in self.sinks:
                sink.stop()
            self.coordinator.close()
            self.commits.close()
            self._stop_queries()
            self._snapshots.close()
            self._tidy(state)
        except Exception as error:
            _log.exception("the job did not end cleanly")
            if self.failure is None:
                self.failure = RegionFailed(f"the job did not end cleanly: {error!r}")
            state = State.FAILED
        self._enter(state)
        self._over.set()

    def _stop_queries(self) -> None:
        """Who sends SIGTERM often sends it to Spark's JVM too; then there is nothing to stop."""
        try:
            for region in self.regions.values():
                region.stop()
            if self._listener is not None:
                self._listener.close()
        except Exception:
            if spark_is_there(self.spark):
                raise
            _log.warning("Spark was gone before its queries were stopped")

    def _tidy(self, state: State) -> None:
        if state not in (State.CANCELED, State.FINISHED):
            return
        for sink in self.sinks:
            sink.abort_unowned()
        self.work.end(self.attempt, state.value)
        if self.settings.checkpointing.retention is not Retention.RETAIN_ON_CANCELLATION:
            for checkpoint in self.store.completed:
                self.store.drop(checkpoint)

    def _enter(self, state: State) -> None:
        with self._lock:
            self.state = state
            self.entered[state] = time.time()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the job has ended."""
        return self._over.wait(seconds)

    def transactions(self) -> Listing:
        """What its sinks have open, as this process knows it: stores are not asked."""
        figures = {each.sink: each for each in self.commits.figures}
        found = []
        for sink in self.sinks:
            if (opened := sink.look()) is not None:
                taken = self.history.get(opened.transaction.checkpoint)
                triggered = taken.triggered if taken is not None else None
                found.append(of_running(sink.uid, opened, figures.get(sink.uid), triggered))
        return Listing(found)

    def checkpoint(self, full: bool = False) -> Future[int]:
        """Ask for a checkpoint now."""
        return self.coordinator.request(Cause.USER, full)
