"""The options of a job, one constant each.

Names, types, defaults and old spellings are Flink's unless the description says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.settings.model import Backend, Mode, Retention, StorageKind, Trigger
from holdfast.settings.values import (
    BOOLEAN,
    DURATION,
    INTEGER,
    SIZE,
    TEXT,
    Kind,
    folded,
    one_of,
    read_duration,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One key: what it takes, what holds without it, what it was called before.

    ``default`` is text that ``kind`` reads. Without one, ``otherwise`` says in words what holds.
    ``least`` and ``most`` are text too and belong to the allowed values.
    """

    key: str
    kind: Kind[T]
    description: str
    default: str | None = None
    otherwise: str = "(none)"
    old: tuple[str, ...] = ()
    least: str | None = None
    most: str | None = None

    @property
    def holdfast_only(self) -> bool:
        """Whether Flink does not know it."""
        return self.key.startswith("holdfast.")

    def read(self, text: str) -> T:
        """The value, or ``ValueError`` with what is allowed."""
        value: Any = self.kind.read(text)
        if self.least is not None and value < self.kind.read(self.least):
            raise ValueError(f"must be at least {self.least}")
        if self.most is not None and value > self.kind.read(self.most):
            raise ValueError(f"must be at most {self.most}")
        return value  # type: ignore[no-any-return]


def _read_trigger(text: str) -> Trigger:
    match folded(text):
        case "asap" | "as-fast-as-possible":
            return Trigger("as-fast-as-possible")
        case "available-now":
            return Trigger("available-now")
    try:
        seconds = read_duration(text)
    except ValueError as error:
        raise ValueError('must be asap, available-now or a duration such as "10 s"') from error
    return Trigger("interval", seconds) if seconds else Trigger("as-fast-as-possible")


_CHECKPOINTING = "execution.checkpointing."

INTERVAL = Option(
    f"{_CHECKPOINTING}interval",
    DURATION,
    "Time from one periodic checkpoint to the next. A longer `min-pause` raises it.",
    otherwise="(none: no periodic checkpoints)",
    least="10 ms",
)
MODE = Option(
    f"{_CHECKPOINTING}mode",
    one_of(Mode),
    "What a recovery does to rows. `exactly-once`: every row counts once. `at-least-once`: rows "
    "behind a barrier may count again. `at-most-once`, which Flink does not have: every start "
    "begins without state where the sources begin; with those that begin at their newest rows, "
    "what lies between is lost. No checkpoints are taken, and settings that ask for them are "
    "refused.",
    default="exactly-once",
)
UNALIGNED = Option(
    f"{_CHECKPOINTING}unaligned.enabled",
    BOOLEAN,
    "Barriers overtake the rows in channels, which become part of the checkpoint. Needs mode "
    "`exactly-once` and one concurrent checkpoint.",
    default="false",
    old=(f"{_CHECKPOINTING}unaligned",),
)
ALIGNED_TIMEOUT = Option(
    f"{_CHECKPOINTING}aligned-checkpoint-timeout",
    DURATION,
    "With unaligned checkpoints: how long one may try to align before it turns unaligned. "
    "0 starts unaligned.",
    default="0 ms",
    old=(f"{_CHECKPOINTING}alignment-timeout",),
)
MIN_PAUSE = Option(
    f"{_CHECKPOINTING}min-pause",
    DURATION,
    "Least time from the end of a checkpoint to the next periodic one. More than a year counts as "
    "a year.",
    default="0 ms",
)
TIMEOUT = Option(
    f"{_CHECKPOINTING}timeout",
    DURATION,
    "A checkpoint that is not complete by then is given up.",
    default="10 min",
    least="10 ms",
)
MAX_CONCURRENT = Option(
    f"{_CHECKPOINTING}max-concurrent-checkpoints",
    INTEGER,
    "Checkpoints that may be under way at once.",
    default="1",
    least="1",
)
TOLERABLE_FAILED = Option(
    f"{_CHECKPOINTING}tolerable-failed-checkpoints",
    INTEGER,
    "Failed checkpoints in a row that do not fail the job.",
    default="0",
    least="0",
)
NUM_RETAINED = Option(
    f"{_CHECKPOINTING}num-retained",
    INTEGER,
    "Completed checkpoints to keep; older ones are deleted.",
    default="1",
    old=("state.checkpoints.num-retained",),
    least="1",
)
RETENTION = Option(
    f"{_CHECKPOINTING}externalized-checkpoint-retention",
    one_of(Retention),
    "Which checkpoints outlive the job. `retain-on-cancellation`: they stay when it is cancelled, "
    "fails or has finished (Flink deletes them then). `delete-on-cancellation`: deleted when it is "
    "cancelled or has finished, kept when it fails. `no-externalized-checkpoints`: the same; Flink "
    "deletes those of a failed job too, here they are kept, so that it can be run again. One that "
    "a sink has yet to commit is kept in any case.",
    default="no-externalized-checkpoints",
)
STORAGE = Option(
    f"{_CHECKPOINTING}storage",
    one_of(StorageKind),
    "Where snapshots go. `jobmanager` keeps them in the memory of the runner; a directory then "
    "holds only metadata. Flink's default is `jobmanager` unless a directory is set; here it is "
    "`filesystem`, because a job that cannot recover is of no use.",
    default="filesystem",
    old=("state.checkpoint-storage",),
)
DIR = Option(
    f"{_CHECKPOINTING}dir",
    TEXT,
    "Directory or URI of the checkpoints.",
    otherwise="`checkpoints` beside `holdfast.work.dir`; none with storage `jobmanager`",
    old=("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
)
SAVEPOINT_DIR = Option(
    f"{_CHECKPOINTING}savepoint-dir",
    TEXT,
    "Directory or URI for savepoints that are asked for without one.",
    old=("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
)
INCREMENTAL = Option(
    f"{_CHECKPOINTING}incremental",
    BOOLEAN,
    "Copy only state files that the storage does not have yet. Flink ignores it for `hashmap`; "
    "here it works there too, because Spark's delta files can be shared by checkpoints. With "
    "`rocksdb` it also turns on Spark's changelog.",
    default="false",
    old=("state.backend.incremental",),
)
INLINE_THRESHOLD = Option(
    f"{_CHECKPOINTING}data-inline-threshold",
    SIZE,
    "State files smaller than this go into the metadata file.",
    default="20 kb",
    old=("state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"),
    most="1 mb",
)
AFTER_TASKS_FINISH = Option(
    f"{_CHECKPOINTING}checkpoints-after-tasks-finish",
    BOOLEAN,
    "Go on taking checkpoints when some regions have finished.",
    default="true",
    old=(f"{_CHECKPOINTING}checkpoints-after-tasks-finish.enabled",),
)
HISTORY = Option(
    "web.checkpoints.history",
    INTEGER,
    "Checkpoints whose statistics are remembered.",
    default="10",
    old=("jobmanager.web.checkpoints.history",),
    least="0",
)
BACKEND = Option(
    "state.backend.type",
    one_of(Backend),
    "Where Spark's stateful operators keep their state: in the executors' memory, or in RocksDB "
    "on their disks.",
    default="hashmap",
    old=("state.backend",),
)
PARALLELISM = Option(
    "parallelism.default",
    INTEGER,
    "State partitions of a region (`spark.sql.shuffle.partitions`). Flink's default is 1.",
    otherwise="(none: what Spark is set to; if that is nothing, the cores of a local master)",
    least="1",
)
RESTORE_PATH = Option(
    "execution.state-recovery.path",
    TEXT,
    "Savepoint or retained checkpoint to start from.",
    old=("execution.savepoint.path",),
)
REST_ADDRESS = Option(
    "rest.address",
    TEXT,
    "Address on which the runner answers HTTP.",
    default="127.0.0.1",
)
REST_PORT = Option(
    "rest.port",
    INTEGER,
    "Port of the runner's HTTP server; 0 takes any free one. Flink's default is 8081.",
    default="0",
    old=("web.port",),
    least="0",
    most="65535",
)
TRIGGER = Option(
    "holdfast.trigger",
    Kind("`asap`, `available-now` or duration", _read_trigger),
    "When a region starts its next micro-batch: at once, at this interval, or only for the input "
    "that is there at the start.",
    default="asap",
)
EVERY_BATCH = Option(
    "holdfast.checkpoint.every-batch",
    BOOLEAN,
    "Take a checkpoint after every micro-batch, in a job of one region. If its only sink is a "
    "database with transactions, rows are then written without being staged first.",
    default="false",
)
MASTER = Option(
    "holdfast.spark.master",
    TEXT,
    "Spark master (`--master`).",
    otherwise="(none: what Spark is set to)",
)
WORK_DIR = Option(
    "holdfast.work.dir",
    TEXT,
    "Directory or URI of the working state; driver and executors must both see it.",
    default="holdfast-data/work",
)
HISTORY_DIR = Option(
    "holdfast.history.dir",
    TEXT,
    "Directory or URI of checkpoint statistics and failures.",
    otherwise="`history` beside `holdfast.work.dir`",
)
CHANNEL_CAPACITY = Option(
    "holdfast.channel.capacity",
    SIZE,
    "Unread bytes of a channel at which its producer waits.",
    default="256 mb",
    least="1 b",
)
BATCH_BYTES = Option(
    "holdfast.channel.max-batch-bytes",
    SIZE,
    "Most bytes of a channel that one micro-batch of its reader takes.",
    default="128 mb",
    least="1 b",
)

JOB_OPTIONS: tuple[Option[Any], ...] = (
    INTERVAL,
    MODE,
    UNALIGNED,
    ALIGNED_TIMEOUT,
    MIN_PAUSE,
    TIMEOUT,
    MAX_CONCURRENT,
    TOLERABLE_FAILED,
    NUM_RETAINED,
    RETENTION,
    STORAGE,
    DIR,
    SAVEPOINT_DIR,
    INCREMENTAL,
    INLINE_THRESHOLD,
    AFTER_TASKS_FINISH,
    HISTORY,
    BACKEND,
    PARALLELISM,
    RESTORE_PATH,
    REST_ADDRESS,
    REST_PORT,
    TRIGGER,
    EVERY_BATCH,
    MASTER,
    WORK_DIR,
    HISTORY_DIR,
    CHANNEL_CAPACITY,
    BATCH_BYTES,
)
