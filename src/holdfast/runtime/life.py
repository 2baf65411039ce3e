"""One life of a job: its queries from their start to their end, in one attempt."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast import __version__
from holdfast.checkpoints.store import CheckpointStore
from holdfast.errors import Cause, HoldfastError
from holdfast.protocol.failures import Reason
from holdfast.protocol.flow import Cut
from holdfast.protocol.graph import Graph
from holdfast.protocol.triggering import Cause as Why
from holdfast.runtime.assembly import assemble
from holdfast.runtime.attempts import base_of
from holdfast.runtime.completion import Completion, Hooks, Identity
from holdfast.runtime.coordinator import Coordinator
from holdfast.runtime.fencing import Fence
from holdfast.runtime.history import History
from holdfast.runtime.promises import Promises
from holdfast.runtime.regions import RunningRegion
from holdfast.runtime.replaying import next_batch
from holdfast.runtime.sink_recovery import SinkRecovery
from holdfast.runtime.source_watch import SourceWatch
from holdfast.runtime.work import Attempt, WorkDirectory
from holdfast.settings import Settings
from holdfast.sinks import CheckedSink
from holdfast.spark.failures import causes_of
from holdfast.spark.jvm_process import spark_is_there
from holdfast.spark.progress import BatchListener
from holdfast.steps import step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_PAUSE = 1.0


class RegionFailed(HoldfastError):
    """A region's query died."""

    code = "REGION_FAILED"
    retryable = True


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that a region, or the job, cannot go on with by itself."""

    error: HoldfastError
    causes: tuple[Cause, ...]
    region: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """What all lives of a job share."""

    graph: Graph
    settings: Settings
    spark: SparkSession
    work: WorkDirectory
    fence: Fence
    store: CheckpointStore
    history: History
    hooks: Hooks


class Life:
    """The queries of a job, and the checkpoints of what they do."""

    def __init__(
        self,
        place: Place,
        attempt: Attempt,
        on_trouble: Callable[[Trouble], None],
        on_input_ended: Callable[[], None],
    ) -> None:
        self._place = place
        self._graph = place.graph
        self._settings = place.settings
        self._spark = place.spark
        self._on_trouble = on_trouble
        self._on_input_ended = on_input_ended
        self._lock = threading.RLock()
        self._listener: BatchListener | None = None
        self._runs: dict[str, RunningRegion] = {}
        self._past: set[str] = set()
        """Runs whose events do not matter any more."""
        self._early: list[tuple[Any, ...]] = []
        self.is_over = False
        self._old_attempts_gone = False
        self.attempt = attempt
        store = place.store
        self._base = base_of(attempt, store.completed, store.damaged)
        """The checkpoint that covers what sinks have got."""
        parts = assemble(
            self._graph,
            self._settings,
            self._spark,
            place.work.job_id,
            attempt,
            self._on_cuts,
            place.fence,
        )
        self.channels, self.gates, self.regions = parts.channels, parts.gates, parts.regions
        self.sinks, self.commits = parts.sinks, parts.commits
        self._snapshots = parts.snapshots
        self.coordinator = self._coordinator()
        self._watch = SourceWatch(self.regions.values(), self._on_source_lost)

    def _coordinator(self) -> Coordinator:
        place = self._place
        at_least = self._newest_checkpoint() + 1
        identity = Identity(
            place.work.job_id,
            self._graph.name,
            self.attempt.number,
            __version__,
            str(self._spark.version),
        )
        chosen = self._settings.checkpointing
        self._completion = Completion(
            identity,
            chosen,
            place.store,
            self.sinks,
            place.history,
            Hooks(place.hooks.on_snapshot, (*place.hooks.on_complete, self._forget_old_attempts)),
            Promises(self.attempt.storage),
            place.fence,
        )
        return Coordinator(
            chosen,
            list(self._graph.regions),
            self.gates,
            self._snapshots,
            self._completion,
            self.commits,
            lambda: place.work.next_checkpoint(at_least),
            self._report,
        )

    def _newest_checkpoint(self) -> int:
        """The greatest id that is known, also of a checkpoint that cannot be read any more."""
        store, base = self._place.store, self._base.id if self._base is not None else 0
        known = [*store.completed, *store.damaged, *self._place.work.given_ids()]
        return max([*known, base, self.attempt.restored_from or 0])

    def _on_cuts(self, cuts: list[Cut]) -> None:
        self.coordinator.cuts_reached(cuts)

    def _report(self, error: HoldfastError) -> None:
        if not self.is_over:
            self._on_trouble(Trouble(error, causes_of(error)))

    def _on_source_lost(self, error: HoldfastError, region: str) -> None:
        if not self.is_over:
            self._on_trouble(Trouble(error, causes_of(error), region))

    def _forget_old_attempts(self, _: int) -> None:
        """This attempt has a checkpoint of its own now; nobody goes back to an older one."""
        if not self._old_attempts_gone:
            self._old_attempts_gone = True
            work, attempt = self._place.work, self.attempt
            self._completion.delete_later("an old attempt", lambda: work.remove_older(attempt))

    # The start

    def start(self) -> None:
        """Build all frames, recover the sinks, start all queries; all of it or nothing runs.

        A sink that keeps rows may need those of batches that are run again, and is recovered then.
        """
        recovery = SinkRecovery(
            self._base, self._place.work.job_id, self.attempt, self.gates, self._newest_checkpoint()
        )
        recovery.refuse_lost(self.sinks)
        with step("start"):
            for uid in self.regions:
                self._build(uid)
            for sink in self.sinks:
                sink.prepare(self._spark, self.regions[sink.region].schema)
            for use in self._graph.sinks.values():
                if isinstance(use.sink, CheckedSink):
                    use.sink.check(self._spark, self.regions[use.region].schema)
            later = [sink for sink in self.sinks if recovery.needs_what_runs_again(sink)]
            recovery.recover(sink for sink in self.sinks if sink not in later)
        self._listener = BatchListener(self._spark, self._on_batch, self._on_end)
        self._run_all_again()
        recovery.recover(later)
        for uid in self.regions:
            self._start_query(uid)
        self.commits.start()
        self.coordinator.start()
        self._watch.start()
        if self._settings.every_batch or any(sink.waits_for_checkpoint for sink in self.sinks):
            self._checkpoint_batch()
        self.look_for_ends()

    def _build(self, uid: str) -> None:
        producers = {u: self.regions[u] for u in self._graph.inputs(uid)}
        self.regions[uid].build(self._spark, self._graph.sources, producers)

    def _start_query(self, uid: str) -> None:
        region = self.regions[uid]
        run = region.start(self._spark)
        with self._lock:
            self._runs[run] = region
            early, self._early = self._early, []
        for call, *values in early:
            call(*values)

    def _run_all_again(self) -> None:
        """A reader comes after its producer here, which must not wait for it."""
        self.gates.release(self.regions)
        for uid in self.regions:  # producers first
            self._run_again(uid)
        self.gates.hold_again(self.regions)

    def _run_again(self, uid: str) -> None:
        """Run the batches that a restore left out, one by one: see ``replaying``."""
        region = self.regions[uid]
        while next_batch(self.attempt, uid, self.gates.last_batch(uid)):
            with step("replay"):
                run = region.start(self._spark, once=True)
                with self._lock:
                    self._past.add(run)
                region.wait()
                self._catch_up(uid)
                self._build(uid)

    # Some regions begin anew, the others do not notice

    def halt(self, uids: Iterable[str]) -> None:
        """Stop some queries; checkpoints that wait for them are aborted."""
        chosen = set(uids)
        for uid in chosen:
            self._forget_run(self.regions[uid])
        self.gates.release(chosen)
        self.coordinator.region_failed(chosen)
        for uid in chosen:
            self.regions[uid].stop()

    def revive(self, uids: Iterable[str]) -> None:
        """Start halted queries where their query logs stand."""
        chosen = [uid for uid in self.regions if uid in set(uids)]
        self.gates.hold_again(chosen)
        for uid in chosen:
            self._catch_up(uid)
            self._build(uid)
            self.regions[uid].halted = False
            self._start_query(uid)
        self.look_for_ends()

    def _catch_up(self, uid: str) -> None:
        """A batch may be in the query log although nobody heard of it; others are void."""
        region, channel = self.regions[uid], self.channels.get(uid)
        for batch, positions in region.unheard(self.gates.last_batch(uid)):
            self.gates.committed(uid, batch, positions)
        if channel is not None:
            channel.forget_after(self.gates.last_batch(uid))

    # What Spark tells

    def _region_of(self, run: str, *event: Any) -> RunningRegion | None:
        """The region of a run; an event may come before ``start`` has returned its id."""
        with self._lock:
            if run in self._past:
                return None
            region = self._runs.get(run)
            if region is None:
                self._early.append(event)
            return region

    def _forget_run(self, region: RunningRegion) -> None:
        region.halted = True
        with self._lock:
            runs = [run for run, its in self._runs.items() if its is region]
            self._past.update(runs)
            for run in runs:
                del self._runs[run]

    def _on_batch(self, run: str, batch: int, report: dict[str, Any]) -> None:
        region = self._region_of(run, self._on_batch, run, batch, report)
        if region is None:
            return
        try:
            self.gates.committed(region.uid, batch, region.batch_committed(batch, report))
            self._snapshots.delete_segments(self.gates.take_unneeded())
            if self._settings.every_batch:
                self._checkpoint_batch()
            self.look_for_ends()
        except Exception as error:
            _log.exception("batch %s of region %s", batch, region.uid)
            self._report(RegionFailed(f"batch {batch} was not taken note of: {error!r}"))

    def _checkpoint_batch(self) -> None:
        """Every batch is its own checkpoint; if that fails, the rows wait for another one."""

        def look(future: Future[int]) -> None:
            if future.exception() is not None and not self.is_over:
                again = threading.Timer(_PAUSE, self._checkpoint_batch)
                again.daemon = True
                again.start()

        self.coordinator.request(Why.PERIODIC).add_done_callback(look)

    def _on_end(self, run: str, error: str | None) -> None:
        region = self._region_of(run, self._on_end, run, error)
        if region is None or self.is_over:
            return
        if error is None:
            region.finished = True
            self.gates.end(region.uid)
            self.look_for_ends()
            return
        self._forget_run(region)
        failed = RegionFailed(f"region {region.uid!r} failed: {error}", region=region.uid)
        self._on_trouble(Trouble(failed, region.causes() or causes_of(failed), region.uid))

    def look_for_ends(self) -> None:
        """End regions whose input has ended; tell when all have."""
        if self.is_over:
            return
        for region in self.regions.values():
            if not region.finished and not region.halted and region.input_has_ended():
                threading.Thread(target=region.finish, name=f"finish-{region.uid}").start()
        if all(region.finished for region in self.regions.values()):
            self._on_input_ended()

    # The end

    def stop(self, reason: Reason = Reason.JOB_STOPPED) -> None:
        """Stop everything; what is under way ends or is aborted."""
        with self._lock:
            if self.is_over:
                return
            self.is_over = True
        self._watch.close()
        self.gates.stop()
        for sink in self.sinks:
            sink.stop()
        self.coordinator.close(reason)
        self.commits.close()
        self._stop_queries()
        self._snapshots.close()
        self._completion.close()

    def _stop_queries(self) -> None:
        """Who sends SIGTERM often sends it to Spark's JVM too; then there is nothing to stop."""
        try:
            for region in self.regions.values():
                region.stop()
            if self._listener is not None:
                self._listener.close()
        except Exception:
            if spark_is_there(self._spark):
                raise
            _log.warning("Spark was gone before its queries were stopped")
