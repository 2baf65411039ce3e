"""A job that runs: from its start to the state in which it ends, through all its lives."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from holdfast import clock
from holdfast.checkpoints.store import CheckpointStore
from holdfast.errors import HoldfastError, UsageError
from holdfast.protocol.causes import FailureClass, classify
from holdfast.protocol.failures import Reason
from holdfast.protocol.graph import Graph
from holdfast.protocol.ladder import Source
from holdfast.protocol.restarts import Past
from holdfast.protocol.triggering import Cause
from holdfast.runtime.attempts import interrupted, restored
from holdfast.runtime.channels import Channel
from holdfast.runtime.commits import Commits
from holdfast.runtime.completion import Hooks
from holdfast.runtime.coordinator import Coordinator
from holdfast.runtime.epochs import SinkEpochs
from holdfast.runtime.failover import Failover, NextRestart, record_end
from holdfast.runtime.failure_log import FailureLog
from holdfast.runtime.fencing import Fenced, raise_epoch
from holdfast.runtime.gates import Gates
from holdfast.runtime.history import History
from holdfast.runtime.life import Life, Place, RegionFailed, Trouble
from holdfast.runtime.recovering import Found, NothingToRestore, find_attempt
from holdfast.runtime.regions import RunningRegion
from holdfast.runtime.sentinel import JvmLost, Sentinel
from holdfast.runtime.transactions import Listing, of_running
from holdfast.runtime.work import Attempt, WorkDirectory
from holdfast.settings import Mode, NoRestart, Retention, Settings
from holdfast.spark.failures import causes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JvmLost", "RunningJob", "State", "checkpoint_directory", "history_directory"]

_log = logging.getLogger(__name__)


class State(Enum):
    """Flink's job states, as far as they occur."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
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

    @property
    def is_live(self) -> bool:
        """Whether it runs, or will again by itself."""
        return self in (State.RUNNING, State.RESTARTING)


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
        past: Sequence[Past] = (),
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.spark = spark
        self.state = State.CREATED
        self.failure: HoldfastError | None = None
        self.entered: dict[State, float] = {State.CREATED: clock.now()}
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._finishing = False
        self._ending = False
        self.work = WorkDirectory(settings.work_dir, graph.name)
        self.job_id = self.work.job_id
        self.history = History(history_directory(settings, self.work))
        self.failures = FailureLog(history_directory(settings, self.work))
        begun = self._begun(fresh)  # what is refused leaves an older runner alone
        self.fence = raise_epoch(self.work.storage)
        self.fence.wait_for_predecessor()
        self.work.delete_unfinished()
        self.history.delete_unfinished()
        self._place = Place(
            graph, settings, spark, self.work, self.fence, self._open_store(), self.history, hooks
        )
        self.found = self._first_attempt(begun, fresh)
        self.life = self._new_life()
        inputs = {uid: graph.inputs(uid) for uid in graph.regions}
        self.failover = Failover(settings, inputs, self.failures, self, past)
        self._sentinel = Sentinel(self.fence, self._on_loss)

    def _open_store(self) -> CheckpointStore:
        return CheckpointStore(checkpoint_directory(self.settings, self.work))

    def _begun(self, fresh: bool) -> Attempt | None:
        path = self.settings.restore_path
        if path is not None:
            return restored(self.work, self.graph, path)
        return None if fresh else interrupted(self.work)

    def _first_attempt(self, begun: Attempt | None, fresh: bool) -> Found:
        if begun is not None and self.settings.restore_path is not None:
            return Found(begun, begun.restored_from)
        if fresh:
            return Found(self.work.begin(None))
        try:
            return find_attempt(self._place, begun)
        except NothingToRestore as error:
            self._record_end(error)
            raise

    def _new_life(self) -> Life:
        return Life(self._place, self.found.attempt, self._on_trouble, self._on_input_ended)

    # What it consists of now

    @property
    def store(self) -> CheckpointStore:
        """Its checkpoints."""
        return self._place.store

    @property
    def attempt(self) -> Attempt:
        """The one that runs, or ran last."""
        return self.life.attempt

    @property
    def channels(self) -> dict[str, Channel]:
        """Between its regions, and to its sinks."""
        return self.life.channels

    @property
    def gates(self) -> Gates:
        """Those of its regions."""
        return self.life.gates

    @property
    def regions(self) -> dict[str, RunningRegion]:
        """Its queries, producers first."""
        return self.life.regions

    @property
    def sinks(self) -> list[SinkEpochs]:
        """Those that take epochs."""
        return self.life.sinks

    @property
    def commits(self) -> Commits:
        """How those sinks are doing."""
        return self.life.commits

    @property
    def coordinator(self) -> Coordinator:
        """Of its checkpoints."""
        return self.life.coordinator

    @property
    def next_restart(self) -> NextRestart | None:
        """The restart that is due, if there is one."""
        return self.failover.next_restart

    # From start to end

    def start(self) -> None:
        """Start all queries; what cannot succeed later either is raised, and nothing runs."""
        self.failover.start()
        self._sentinel.start()
        try:
            self._enter(State.RUNNING)
            self.life.start()
        except Exception as error:
            judged = classify(causes_of(error), self.settings.failure_rules)
            never = isinstance(self.settings.restart, NoRestart)
            if never or judged.kind is FailureClass.NON_RECOVERABLE:
                self._record_end(error)
                self._end(State.FAILED)
                raise
            self._on_trouble(Trouble(as_ours(error), causes_of(error)))
        except BaseException:
            self._end(State.FAILED)
            raise

    def _record_end(self, error: BaseException, decision: str = "the job failed") -> None:
        record_end(self.failures, self.settings.failure_rules, error, decision)

    def _on_loss(self, error: HoldfastError) -> None:
        """The sentinel has found something after which this process cannot go on."""
        if self.state.is_live:
            self._record_end(error, "this process ends")
        self.fail(error)

    def _on_trouble(self, trouble: Trouble) -> None:
        if self.state.is_live:
            self.failover.report(trouble)

    def _on_input_ended(self) -> None:
        threading.Thread(target=self._finish, args=(self.life,), name="finish").start()

    def _finish(self, life: Life) -> None:
        """All input has been read: the last checkpoint commits everything."""
        with self._lock:
            if self.state is not State.RUNNING or self._finishing or life is not self.life:
                return
            self._finishing = True
        life.coordinator.pause()
        if self.settings.checkpointing.after_tasks_finish:
            try:
                life.coordinator.request(Cause.FINAL).result()
            except HoldfastError as error:
                self._finishing = False
                if not life.is_over:
                    self._on_trouble(Trouble(error, causes_of(error)))
                return
        while not life.commits.wait(1.0):
            if self.state is not State.RUNNING or life.is_over:
                self._finishing = False
                return  # somebody ends the job otherwise
        self._end(State.FINISHED)

    def fail(self, error: HoldfastError) -> None:
        """Something happened that the job cannot go on with."""
        with self._lock:
            if not self.state.is_live:
                return
            self.failure = error
            self._enter(State.FAILING)
        threading.Thread(target=self._end, args=(State.FAILED,), name="fail").start()

    def cancel(self) -> None:
        """End the job for good; what remains of its checkpoints is a setting."""
        if self._begin_to_end():
            threading.Thread(target=self._end, args=(State.CANCELED,), name="cancel").start()

    def suspend(self) -> None:
        """Stop; the next run goes on exactly here."""
        if self._begin_to_end():
            self._end(State.SUSPENDED)

    def _begin_to_end(self) -> bool:
        with self._lock:
            if not self.state.is_live:
                return False
            self._enter(State.CANCELLING)
            return True

    def _end(self, state: State) -> None:
        """Whoever comes first ends the job; a Ctrl-C at the very end changes nothing any more."""
        with self._lock:
            if self._ending:
                return
            self._ending = True
        try:
            self._sentinel.close()
            self.failover.close()
            self.life.stop()
            self._tidy(state)
            self._leave()
        except Exception as error:
            _log.exception("the job did not end cleanly")
            if self.failure is None:
                unclean = RegionFailed(f"the job did not end cleanly: {error!r}")
                self.failure = error if isinstance(error, Fenced) else unclean
            state = State.FAILED
        self._enter(state)
        self._over.set()

    def _tidy(self, state: State) -> None:
        if state not in (State.CANCELED, State.FINISHED):
            return
        self.fence.check()  # what follows would end the job of its successor
        for sink in self.sinks:
            sink.abort_unowned()
        self.work.end(self.attempt, state.value)
        if self.settings.checkpointing.retention is not Retention.RETAIN_ON_CANCELLATION:
            self._drop_checkpoints()

    def _drop_checkpoints(self) -> None:
        """All, but not what is still owed to a sink: that would lose rows which were promised."""
        latest, owing = self.store.latest, self.owing
        for checkpoint in (*self.store.completed, *self.store.damaged):
            if not owing or latest is None or checkpoint != latest.id:
                self.store.drop(checkpoint)
        if owing and latest is not None:
            _log.warning(
                "checkpoint %s is kept: %s could not commit what it promises. `holdfast "
                "transactions` lists and settles it, and so does a start --from it [path=%s]",
                latest.id,
                ", ".join(owing),
                self.store.path_of(latest.id),
            )

    @property
    def owing(self) -> tuple[str, ...]:
        """Sinks that have not committed what the newest checkpoint promises."""
        latest = self.store.latest
        return tuple(s.uid for s in self.sinks if latest is not None and s.pending(latest.id))

    def _leave(self) -> None:
        with suppress(HoldfastError):  # a successor then waits a little
            self.fence.leave()

    def _enter(self, state: State) -> None:
        with self._lock:
            self.state = state
            self.entered[state] = clock.now()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the job has ended."""
        return self._over.wait(seconds)

    # Failover

    def batches(self, region: str | None) -> int:
        """How many batches a region, or all, have committed."""
        uids = self.graph.regions if region is None else [region]
        return sum(self.gates.last_batch(uid) + 1 for uid in uids)

    def halt(self, regions: Sequence[str]) -> None:
        """Stop the queries of some regions."""
        self.life.halt(regions)

    def revive(self, regions: Sequence[str]) -> None:
        """Start them again, from their query logs."""
        self.fence.check()  # the files of its successor are not to be touched
        self.life.revive(regions)

    def halt_all(self) -> None:
        """Stop everything, to start it again."""
        with self._lock:
            if self.state is State.RUNNING:
                self._enter(State.RESTARTING)
        self.life.stop(Reason.REGION_FAILED)

    def revive_all(self, source: Source) -> None:
        """Start everything again, from the query logs or from a checkpoint."""
        self.fence.check()  # below, what belongs to no known checkpoint or batch is deleted
        # Read anew: only the storage knows whether a checkpoint in doubt was stored.
        self._place = replace(self._place, store=self._open_store())
        may_use_own = source is Source.OWN_LOGS
        self.found = find_attempt(self._place, self.attempt, may_use_own=may_use_own)
        self.life = self._new_life()
        self._finishing = False
        with self._lock:
            if self.state is not State.RESTARTING:
                return
            self._enter(State.RUNNING)
        try:
            self.life.start()
        except BaseException:
            with suppress(Exception):
                self.life.stop()
            raise

    def has_replaced_another(self) -> bool:
        """Whether this is the newest runner, and an earlier one may not have noticed yet."""
        try:
            self.fence.check()
        except Fenced:
            return False
        except HoldfastError:  # then nobody knows; the restart looks again before it does anything
            _log.warning("the epoch of the job could not be read", exc_info=True)
        return self.fence.is_shared

    # What others ask

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
        if self.settings.checkpointing.mode is Mode.AT_MOST_ONCE:
            raise UsageError("a job in mode at-most-once has no checkpoints", job=self.graph.name)
        return self.coordinator.request(Cause.USER, full)


def as_ours(error: BaseException) -> HoldfastError:
    """Any error as one that can be told to users."""
    if isinstance(error, HoldfastError):
        return error
    ours = HoldfastError(f"the job could not start: {error!r}")
    ours.__cause__ = error
    return ours
