"""The one place that joins everything up and runs a job in this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import clock
from holdfast.errors import HoldfastError, UsageError
from holdfast.settings import Mode, Settings, resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.job import Job
    from holdfast.protocol.graph import Graph
    from holdfast.runtime.running import RunningJob
    from holdfast.server.claims import Claim
    from holdfast.server.processes import Process
    from holdfast.server.registry import Runner
    from holdfast.supervision.reporting import Reporter

CONFIG_VARIABLE = "HOLDFAST_CONFIG"
CONFIG_FILE = "holdfast.toml"


@dataclass(frozen=True, slots=True)
class Started:
    """A job that runs, and where it answers."""

    running: RunningJob
    url: str


Watch = Callable[[Started], None]
"""Shows a job while it runs; returns when it is over, or when it is to be stopped."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    job_id: str
    state: str
    failure: HoldfastError | None
    checkpoint: str | None
    """The newest completed checkpoint."""
    owing: tuple[str, ...] = ()
    """Sinks that have not committed what it promises."""


def launch(
    job: Job,
    arguments: Mapping[str, str],
    *,
    file: Path | None = None,
    fresh: bool = False,
    watch: Watch | None = None,
    reporter: Reporter | None = None,
) -> Outcome:
    """Run a job until it ends; ``reporter`` tells its supervisor, if it has one.

    1. Check the job and its settings: all problems at once, before Spark starts.
    2. Claim the job, so that no other process runs it too.
    3. Start Spark, find out where the job stands, answer HTTP, start its regions.
    4. Watch until it is over.
    """
    from holdfast.storage import needs_spark
    from holdfast.supervision.reporting import nobody

    _refuse_while_loading(job)
    graph, settings = prepare(job, arguments, file)
    told = reporter or nobody()
    told.settings(settings)
    if told.inherited.begun:  # an earlier process has done as was said; this one goes on
        fresh, settings = False, replace(settings, restore_path=None)
    if needs_spark(settings.work_dir):
        session(job, settings)
    with claimed(graph.name, settings, told) as claim:
        spark = session(job, settings)
        claim.spark_started(jvm())
        told.jvm(jvm())
        return _run(job, graph, settings, spark, fresh, claim, watch or _wait, told)


def prepare(job: Job, arguments: Mapping[str, str], file: Path | None) -> tuple[Graph, Settings]:
    """The job as data and its settings from all places; one error with everything that is wrong."""
    problems: list[UsageError] = []
    graph = settings = None
    try:
        graph = job.graph()
    except UsageError as error:
        problems.append(error)
    try:
        settings = job_settings(job, arguments, file)
    except UsageError as error:
        problems.append(error)
    if len(problems) > 1:
        message = "\n".join(problem.message for problem in problems)
        raise UsageError(message, hint=problems[-1].hint, **problems[0].ids)
    if graph is None or settings is None:
        raise problems[0]
    if settings.every_batch and len(graph.regions) > 1:
        raise UsageError(
            "holdfast.checkpoint.every-batch is for jobs of one region",
            hint="Set execution.checkpointing.interval instead.",
            job=graph.name,
        )
    _refuse_epochs_without_checkpoints(graph, settings)
    return graph, settings


def _refuse_epochs_without_checkpoints(graph: Graph, settings: Settings) -> None:
    from holdfast.sinks import EpochSink

    waiting = [use.uid for use in graph.sinks.values() if isinstance(use.sink, EpochSink)]
    if waiting and settings.checkpointing.mode is Mode.AT_MOST_ONCE:
        raise UsageError(
            "in mode at-most-once there are no checkpoints, and these sinks would never show a "
            f"row: {', '.join(waiting)}",
            hint="Use the idempotent variant of the sink, a plain one, or another mode.",
            job=graph.name,
        )


def job_settings(job: Job, arguments: Mapping[str, str], file: Path | None) -> Settings:
    """The settings of a job from all places."""
    chosen = file or default_config_file()
    found = resolve(arguments=arguments, environ=os.environ, file=chosen, code=job.settings)
    return replace(found, failure_rules=(*job.failure_rules, *found.failure_rules))


def default_config_file() -> Path | None:
    """The file that ``HOLDFAST_CONFIG`` names, else ``holdfast.toml`` here, if it is there."""
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return Path(CONFIG_FILE) if Path(CONFIG_FILE).is_file() else None


def spark_settings(settings: Settings) -> dict[str, str]:
    """Settings of the session that follow from the job's."""
    from holdfast.spark.job_session import QUERY_LOG_ON_LOCAL_DISK, STATE_PARTITIONS

    chosen = dict(settings.state_spark)
    if _local_path(settings.work_dir) is not None:
        chosen |= QUERY_LOG_ON_LOCAL_DISK
    if settings.parallelism is not None:
        chosen[STATE_PARTITIONS] = str(settings.parallelism)
    return chosen


# Claiming


@contextmanager
def claimed(name: str, settings: Settings, reporter: Reporter | None = None) -> Iterator[Claim]:
    """While this lasts, no other process runs the job."""
    from holdfast.runtime.work import WorkDirectory
    from holdfast.server.claims import claim
    from holdfast.server.processes import own_process
    from holdfast.server.registry import Registry, Runner

    work = WorkDirectory(settings.work_dir, name)
    local = _local_path(work.location)
    where = str(local.absolute()) if local is not None else work.location
    runner = Runner(work.job_id, name, where, clock.now(), own_process())
    if reporter is not None:
        runner = replace(runner, supervisor=reporter.supervisor, restart=reporter.restart)
    with claim(runner, local, Registry(), own_jvm=jvm()) as held:
        if reporter is not None:
            reporter.claimed(runner)
        yield held


def runner_of(name: str, settings: Settings) -> Runner | None:
    """The live process that has claimed the job, if there is one."""
    from holdfast.runtime.work import WorkDirectory
    from holdfast.server.claims import holder
    from holdfast.server.registry import Registry

    work = WorkDirectory.find(settings.work_dir, name)
    if work is None:
        return None
    return holder(work.job_id, _local_path(work.location), Registry())


def _local_path(location: str) -> Path | None:
    from holdfast.storage.names import scheme_of

    scheme = scheme_of(location)
    if scheme is None:
        return Path(location)
    return Path(location.partition(":")[2]) if scheme == "file" else None


def session(job: Job, settings: Settings) -> SparkSession:
    """Spark with the job's settings, and the jars its sources need; started if it does not run."""
    from holdfast.spark.job_session import job_session

    opened = [source.open for source in job.graph().sources.values()]
    needed = dict.fromkeys(o.connector for o in opened if hasattr(o, "connector"))
    chosen = spark_settings(settings)
    return job_session(job.name, settings.master, chosen, settings.spark, list(needed))


def jvm() -> Process | None:
    """Spark's JVM, if this process has one."""
    from holdfast.server.processes import process
    from holdfast.spark.jvm_process import jvm_pid

    pid = jvm_pid()
    return None if pid is None else process(pid)


# Running


def _run(
    job: Job,
    graph: Graph,
    settings: Settings,
    spark: SparkSession,
    fresh: bool,
    claim: Claim,
    watch: Watch,
    told: Reporter,
) -> Outcome:
    from holdfast.runtime.completion import Hooks
    from holdfast.runtime.running import RunningJob
    from holdfast.server.serving import serving
    from holdfast.server.view import RunningAccess

    hooks = Hooks(dict(job.snapshot_hooks), tuple(job.completion_hooks))
    running = RunningJob(graph, settings, spark, hooks, fresh, told.inherited.past)
    told.begun(running)
    jobs = {running.job_id: RunningAccess(running)}
    with serving(jobs, settings.rest_address, settings.rest_port) as address:
        claim.reachable(address.url, address.token)
        _start(running)
        told.started(running)
        try:
            watch(Started(running, address.url))
        finally:
            running.suspend()
            running.wait()
    return _outcome(running)


def _start(running: RunningJob) -> None:
    try:
        running.start()
    except Exception:
        with suppress(Exception):  # what made the start fail is what is told
            running.life.stop()
        raise


def _wait(started: Started) -> None:
    while not started.running.wait(1.0):
        pass


def _outcome(running: RunningJob) -> Outcome:
    latest = running.store.latest
    path = running.store.path_of(latest.id) if latest is not None else None
    return Outcome(running.job_id, running.state.value, running.failure, path, running.owing)


# Scripts that are being loaded

_loading = threading.local()


@contextmanager
def loading_a_script() -> Iterator[None]:
    """While this lasts, a job that is run is refused: its script is only asked for the job."""
    _loading.script = True
    try:
        yield
    finally:
        _loading.script = False


def _refuse_while_loading(job: Job) -> None:
    if getattr(_loading, "script", False):
        raise UsageError(
            "the script runs its job while it is being loaded",
            hint='Put job.run() below `if __name__ == "__main__":`; `holdfast run` runs the job, '
            "and `python job.py` still does.",
            job=job.name,
        )
