"""What the user writes: a job of sources, regions and sinks.

job = hf.Job("page-views")
clicks = job.source("clicks", lambda spark: spark.readStream.format("kafka")....load())

@job.region("pv", reads=clicks, output_mode="update")
def pv(clicks):
    return clicks.groupBy("app").count()

job.sink("out", pv, hf.sinks.files("/data/pv"))
job.run()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.protocol.graph import Build, Graph, Region, SinkUse, Source, build_graph
from holdfast.settings import FailureClass, Rule
from holdfast.sinks import EpochSink, PlainSink, for_runtime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.launch import Outcome

Input = Source | Region | str


class JobError(UsageError):
    """The job is put together wrongly; the message lists everything that is."""

    code = "JOB"


class Job:
    """A graph of Structured Streaming queries with checkpoints of its own."""

    def __init__(self, name: str, settings: Mapping[str, object] | None = None) -> None:
        self.name = name
        self.settings = dict(settings or {})
        self.snapshot_hooks: dict[str, Callable[[int], Any]] = {}
        self.completion_hooks: list[Callable[[int], object]] = []
        self.failure_rules: list[Rule] = []
        self._sources: list[Source] = []
        self._regions: list[Region] = []
        self._sinks: list[SinkUse] = []

    def source(self, uid: str, open: Callable[[SparkSession], DataFrame]) -> Source:
        """Rows from outside: ``open`` gets the Spark session and returns a streaming DataFrame."""
        declared = Source(uid, open)
        self._sources.append(declared)
        return declared

    def region(
        self, uid: str, *, reads: Input | Iterable[Input] = (), output_mode: str = "append"
    ) -> Callable[[Build], Region]:
        """Declare a query: the function below gets a DataFrame for each input, in order."""
        inputs = [reads] if isinstance(reads, (Source, Region, str)) else list(reads)

        def declare(build: Build) -> Region:
            declared = Region(uid, tuple(_uid(i) for i in inputs), build, output_mode)
            self._regions.append(declared)
            return declared

        return declare

    def sink(self, uid: str, region: Region | str, sink: Any) -> None:
        """Send the rows of a region somewhere."""
        self._sinks.append(SinkUse(uid, _uid(region), for_runtime(sink)))

    def on_snapshot(self, hook: Callable[[int], Any]) -> Callable[[int], Any]:
        """Call a function when a checkpoint is triggered; what it returns (JSON) is kept in it.

        It must be quick: until it has returned, nothing else happens to any checkpoint.
        """
        self.snapshot_hooks[hook.__name__] = hook
        return hook

    def on_complete(self, hook: Callable[[int], object]) -> Callable[[int], object]:
        """Call a function with the id of each checkpoint that completes, one after the other.

        Checkpoints go on meanwhile, but whoever asked for this one waits, and a stop waits for it
        for ten seconds.
        """
        self.completion_hooks.append(hook)
        return hook

    def failure_rule(
        self,
        kind: str,
        *,
        type: str | None = None,
        condition: str | None = None,
        text: str | None = None,
    ) -> None:
        """Say of which class a failure is, before anybody else does.

        ``kind`` is ``NonRecoverable``, ``PartitionDataMissing``, ``Environment`` or
        ``Recoverable``. ``type`` names an exception of Python or Java, ``condition`` is Spark's,
        ``text`` a regular expression that is searched in the message; all that are given must fit.
        """
        known = {each.value: each for each in FailureClass}
        if kind not in known:
            raise UsageError(
                f"there is no failure class {kind!r}", hint=f"Use one of {', '.join(known)}."
            )
        why = f"the job {self.name!r} says so"
        self.failure_rules.append(Rule(known[kind], type, condition, text, why))

    def graph(self) -> Graph:
        """The job as data; ``JobError`` says everything that is wrong with it."""
        built = build_graph(self.name, self._sources, self._regions, self._sinks)
        problems = built if isinstance(built, list) else []
        problems += [
            f"sink {use.uid!r} is not a sink: use holdfast.sinks, or see its interface"
            for use in self._sinks
            if not isinstance(use.sink, (PlainSink, EpochSink))
        ]
        if problems or isinstance(built, list):
            lines = "".join(f"\n  - {problem}" for problem in problems)
            raise JobError(f"the job cannot run:{lines}", job=self.name)
        return built

    def run(self, **settings: object) -> Outcome:
        """Run until the input ends, the job fails or somebody stops it.

        Settings may be given with ``_`` for ``.`` and ``-`` where that is not ambiguous, or as a
        dictionary: ``job.run(**{"execution.checkpointing.interval": "10s"})``.
        """
        from holdfast.launch import launch

        return launch(self, {key: str(value) for key, value in settings.items()})


def _uid(item: Any) -> Any:
    return item.uid if isinstance(item, (Source, Region)) else item
