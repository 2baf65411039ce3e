"""Running jobs in the test's own Spark, and looking at their checkpoints from outside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import holdfast as hf
from holdfast.checkpoints.metadata import CheckpointMetadata
from holdfast.checkpoints.restoring import restore_region
from holdfast.checkpoints.store import read_checkpoint
from holdfast.errors import HoldfastError
from holdfast.launch import spark_settings
from holdfast.querylog import read_state
from holdfast.querylog.snapshots import newest_commit
from holdfast.runtime.completion import Hooks
from holdfast.runtime.running import RunningJob
from holdfast.settings import resolve
from holdfast.sources.pacing import decode_row
from holdfast.spark.job_session import job_session
from holdfast.storage import create_tree, open_storage
from tests.spark.taps import PATIENCE, Latch, Tap, drained, until

KEYS = 5


class Live:
    """A job that runs.

    Batches of regions that read taps, and positions in their channels, can be told beforehand.
    Regions that read channels may begin with a batch without rows.
    """

    def __init__(self, running: RunningJob) -> None:
        self.running = running

    @property
    def state(self) -> str:
        return self.running.state.value

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait for a condition; a job that fails meanwhile is told."""

        def met() -> bool:
            if condition():
                return True
            assert self.running.failure is None, self.running.failure
            return False

        until(met, self.describe)

    def describe(self) -> dict[str, Any]:
        """How far everybody is."""
        graph, gates = self.running.graph, self.running.gates
        positions = {
            uid: {c: gates.position(uid, c) for c in graph.inputs(uid)} for uid in graph.regions
        }
        return {uid: (self.committed(uid), read) for uid, read in positions.items()}

    def until_over(self) -> str:
        """Wait for the job's own end; returns its state."""
        self.until(lambda: self.running.state.is_over)
        return self.state

    def committed(self, region: str) -> int:
        return self.running.gates.last_batch(region)

    def rows_read(self, region: str) -> int:
        """Rows that a region has read in this run."""
        return self.running.regions[region].figures.rows

    def has_read(self, region: str, channel: str) -> int:
        """The position of a region's committed batches in a channel."""
        return self.running.gates.position(region, channel)

    def settle(self) -> None:
        """Wait until everything that was given has come to the ends of the job."""
        self.until(lambda: all(self._is_settled(uid) for uid in self.running.graph.regions))

    def _is_settled(self, uid: str) -> bool:
        graph = self.running.graph
        channels = graph.inputs(uid)
        if channels and self.committed(uid) < 0:
            return False  # a reader's first batch comes in any case
        taps = [graph.sources[s].open for s in graph.regions[uid].reads if s in graph.sources]
        given = sum(tap.given for tap in taps)  # type: ignore[attr-defined]
        return self._rows_committed(uid) == given and all(
            self.has_read(uid, channel) > self.committed(channel) for channel in channels
        )

    def _rows_committed(self, uid: str) -> int:
        """Rows of its taps that a region has read, by its own query log."""
        try:
            found = newest_commit(self.running.attempt.region(uid))
        except HoldfastError:
            return -1  # caught in the middle of a change
        if found is None:
            return 0
        if found.batch != self.committed(uid):
            return -1
        ends = [json.loads(offset) for offset in found.offsets.values() if offset]
        return sum(end.get("row", 0) for end in ends)

    def request(self, full: bool = False) -> Future[int]:
        """Ask for a checkpoint and wait until its barriers are out."""
        before = {figures.id for figures in self.running.history.all()}
        future = self.running.checkpoint(full)
        self.until(lambda: future.done() or self._has_cut(before))
        return future

    def _has_cut(self, before: set[int]) -> bool:
        """Whether a checkpoint that is not one of these has reached a region."""
        snapshots = self.running.coordinator._in_flight
        return any(
            figures.acknowledged or (figures.id in snapshots and snapshots[figures.id].cuts)
            for figures in self.running.history.all()
            if figures.id not in before
        )

    def checkpoint(self, full: bool = False) -> CheckpointMetadata:
        """Take a checkpoint."""
        return self.completed(self.running.checkpoint(full))

    def completed(self, future: Future[int]) -> CheckpointMetadata:
        checkpoint = future.result(PATIENCE)
        return self.running.store.completed[checkpoint]

    def path(self, metadata: CheckpointMetadata) -> str:
        return self.running.store.path_of(metadata.id)

    @property
    def checkpoints(self) -> Path:
        """The directory of all checkpoints of the job."""
        return Path(self.running.store.location)

    def figures(self, checkpoint: int) -> Any:
        return self.running.history.of(checkpoint)


_DEFAULTS = {"execution.checkpointing.externalized-checkpoint-retention": "retain-on-cancellation"}


def prepared(
    job: hf.Job, home: Path, settings: Mapping[str, object], fresh: bool = False
) -> RunningJob:
    """A job that stands where it will go on, in a session of its own."""
    code = {"holdfast.work.dir": str(home / "work"), **_DEFAULTS, **settings}
    resolved = resolve(arguments={}, environ={}, file=None, code=code)
    session = job_session(job.name, None, spark_settings(resolved), resolved.spark)
    hooks = Hooks(dict(job.snapshot_hooks), tuple(job.completion_hooks))
    return RunningJob(job.graph(), resolved, session, hooks, fresh)


@contextmanager
def running(
    job: hf.Job, home: Path, *latches: Latch, fresh: object = False, **options: object
) -> Iterator[Live]:
    """Run a job as long as the block lasts; for the names of options see ``named``."""
    live = Live(prepared(job, home, named(options), bool(fresh)))
    live.running.start()
    try:
        yield live
    finally:
        for latch in latches:
            latch.let()
        live.running.suspend()
        assert live.running.wait(PATIENCE)


_NAMES = {
    "restore": "execution.state-recovery.path",
    "backend": "state.backend.type",
    "batch_bytes": "holdfast.channel.max-batch-bytes",
    "capacity": "holdfast.channel.capacity",
    "inline": "execution.checkpointing.data-inline-threshold",
    "unaligned": "execution.checkpointing.unaligned.enabled",
    "aligned_timeout": "execution.checkpointing.aligned-checkpoint-timeout",
    "concurrent": "execution.checkpointing.max-concurrent-checkpoints",
    "tolerable": "execution.checkpointing.tolerable-failed-checkpoints",
    "retained": "execution.checkpointing.num-retained",
    "retention": "execution.checkpointing.externalized-checkpoint-retention",
}


def named(options: Mapping[str, object]) -> dict[str, object]:
    """Settings by short names; those not listed are below ``execution.checkpointing``."""

    def key(name: str) -> str:
        if "." in name:
            return name
        return _NAMES.get(name, f"execution.checkpointing.{name.replace('_', '-')}")

    return {key(name): value for name, value in options.items()}


# Regions


def passed(*inputs: Any) -> Any:
    """All rows of all inputs."""
    rows = inputs[0]
    for other in inputs[1:]:
        rows = rows.unionByName(other)
    return rows


def counted(*inputs: Any) -> Any:
    """How many rows there are of each ``n % KEYS``."""
    return passed(*inputs).selectExpr(f"n % {KEYS} AS key").groupBy("key").count()


def one_region(tap: Tap, *sinks: Any) -> hf.Job:
    """A source and a count."""
    job = hf.Job("job")
    job.source("a", tap)
    job.region("count", reads="a", output_mode="update")(counted)
    for number, sink in enumerate(sinks or [hf.sinks.foreach_batch(drained)]):
        job.sink(f"sink-{number}", "count", sink)
    return job


def chain(tap: Tap, latch: Latch) -> hf.Job:
    """A source region, and a count behind a channel that can be held still."""
    job = hf.Job("job")
    job.source("a", tap)
    job.region("left", reads="a")(passed)
    job.region("count", reads="left", output_mode="update")(counted)
    job.sink("latch", "count", hf.sinks.foreach_batch(latch))
    return job


# What came of it


def counts(*numbers: range) -> dict[int, int]:
    """The recount: what ``counted`` must hold after these rows."""
    return dict(Counter(n % KEYS for rows in numbers for n in rows))


def source_rows(metadata: CheckpointMetadata, region: str) -> range:
    """The rows that a region had read of its source, by what the checkpoint says."""
    found = metadata.region(region)
    assert found is not None
    offset = next((i.offset for i in found.inputs if i.kind == "source"), None)
    return range(decode_row(offset) if offset else 0)


def state_at(spark: Any, path: str, region: str, to: Path) -> dict[int, int]:
    """The counts in a checkpoint, from its own files alone."""
    metadata, files = read_checkpoint(path)
    found = metadata.region(region)
    assert found is not None
    tree = create_tree(to, seal="seal")
    restore_region(tree, files, found, "log", f"{to}/log")
    tree.write("seal", b"")
    tree.publish()
    return state_in(spark, to / "log")


def state_in(spark: Any, log: Path | str) -> dict[int, int]:
    """The counts in a query log."""
    rows = read_state(spark, str(log)).select("key.*", "value.*").collect()
    return {row["key"]: row["count"] for row in rows}


def final_state(spark: Any, live: Live, region: str = "count") -> dict[int, int]:
    """The counts where the region stands now."""
    return state_in(spark, live.running.attempt.region(region))


def visible(folder: Path, column: str = "n") -> Counter[Any]:
    """What readers of a files sink see."""
    files = sorted(folder.glob("*.parquet"))
    return Counter(row[column] for file in files for row in pq.read_table(file).to_pylist())


def staged(folder: Path) -> list[str]:
    """What a files sink has prepared and readers do not see."""
    listed = open_storage(folder).list("_holdfast")
    return sorted(info.path for info in listed if info.path.endswith(".parquet"))


def tree_of(folder: Path) -> dict[str, bytes]:
    """Every file below a directory, byte by byte."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def document(path: str) -> dict[str, Any]:
    """``_metadata`` as anybody can read it."""
    loaded: dict[str, Any] = json.loads((Path(path) / "_metadata").read_text())
    return loaded
