"""TARGET: a job that runs, by its name or id, or one that need not run, by its script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.cli.client import Client
    from holdfast.job import Job
    from holdfast.protocol.graph import Graph
    from holdfast.settings import Settings

TargetName = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="Name or id of a running job, or the script of one that need not run.",
        show_default=False,
    ),
]
ScriptArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- ARGS]", help="Arguments for the script.", show_default=False),
]
ScriptSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the script's job, as for run."),
]
ScriptConfig = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings, as for run.")
]
ScriptJob = Annotated[
    str | None,
    typer.Option("--job", metavar="NAME", help="Which job, if the script has several."),
]


@dataclass(frozen=True, slots=True)
class Given:
    """What was typed. All but the target is about scripts."""

    target: str
    arguments: Sequence[str] | None
    settings: Sequence[str] | None
    config: Path | None
    job: str | None

    @property
    def is_script(self) -> bool:
        """Whether the target is a script, there or not."""
        return self.target.endswith(".py") or Path(self.target).is_file()


@dataclass(frozen=True, slots=True)
class Stopped:
    """A job that does not run."""

    job: Job
    graph: Graph
    settings: Settings

    def start_spark(self) -> SparkSession:
        """The job's own Spark."""
        from holdfast.cli.late_spark import in_thread
        from holdfast.cli.terminal import spinner
        from holdfast.launch import session

        with spinner("Starting Spark"):
            return in_thread(lambda: session(self.job, self.settings))


@contextmanager
def target_of(given: Given) -> Iterator[Client | Stopped]:
    """Find the job; Spark, if it is needed for that or meanwhile, ends with this."""
    if given.is_script:
        with _from_script(given) as found:
            yield found
    else:
        yield _running(given)


def _running(given: Given) -> Client:
    from holdfast.cli.client import UnknownJob, find_job

    if given.arguments or given.settings or given.config or given.job:
        raise UsageError(
            "--set, --config, --job and arguments are for scripts",
            hint="Give the job's script instead of its name: holdfast <command> job.py",
            target=given.target,
        )
    try:
        return find_job(given.target)
    except UnknownJob as error:
        hint = f"{error.hint} If it does not run, give its script: job.py"
        raise UnknownJob(error.message, hint=hint) from None


@contextmanager
def _from_script(given: Given) -> Iterator[Client | Stopped]:
    from holdfast.cli.noise import noise_in
    from holdfast.cli.run import pairs
    from holdfast.cli.script import load_job
    from holdfast.launch import prepare
    from holdfast.server.registry import home
    from holdfast.storage import needs_spark

    job = load_job(Path(given.target), given.arguments or [], given.job)
    stopped = Stopped(job, *prepare(job, pairs(list(given.settings or [])), given.config))
    with noise_in(home() / "logs" / "transactions.log"), _ending_spark():
        if needs_spark(stopped.settings.work_dir):
            stopped.start_spark()
        yield _client(stopped) or stopped


def _client(stopped: Stopped) -> Client | None:
    from holdfast.cli.client import Client
    from holdfast.launch import runner_of

    runner = runner_of(stopped.graph.name, stopped.settings)
    if runner is None:
        return None
    if runner.url is not None and runner.token is None:
        raise UsageError(
            "the job runs, and not for you: its token is not on record here",
            hint="Ask who runs it, or set HOLDFAST_HOME to what it was started with.",
            job=runner.name,
            pid=runner.process.pid,
        )
    return Client(runner)


@contextmanager
def _ending_spark() -> Iterator[None]:
    from holdfast.cli.launching import end_java
    from holdfast.launch import jvm

    before = jvm()
    try:
        yield
    finally:
        if before is None and jvm() is not None:
            end_java()
