"""Keys of Flink that Holdfast does not act on, and Spark's that it sets itself.

A Flink key is accepted all the same where its value asks for nothing, such as Flink's own default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.settings.rocksdb import CHANGELOG, FORMAT_VERSION, PROVIDER_CLASS
from holdfast.settings.values import (
    BOOLEAN,
    DURATION,
    INTEGER,
    NUMBER,
    SIZE,
    TEXT,
    Kind,
    folded,
)


@dataclass(frozen=True, slots=True)
class Refused:
    """A Flink key, or all below a prefix (``…*``), with why not or what instead."""

    key: str
    why: str
    harmless: tuple[str, ...] = ()
    kind: Kind[Any] = TEXT

    def covers(self, key: str) -> bool:
        """Whether it speaks of this key."""
        return key.startswith(self.key[:-1]) if self.key.endswith("*") else key == self.key

    def is_harmless(self, text: str) -> bool:
        """Whether this value asks for nothing."""
        return any(self._same(text, harmless) for harmless in self.harmless)

    def _same(self, text: str, harmless: str) -> bool:
        if self.kind is TEXT:
            return folded(text) == folded(harmless)
        try:
            return bool(self.kind.read(text) == self.kind.read(harmless))
        except ValueError:
            return False


def _off(*keys: str, why: str) -> tuple[Refused, ...]:
    return tuple(Refused(key, why, ("false",), BOOLEAN) for key in keys)


def _any(*keys: str, why: str) -> tuple[Refused, ...]:
    return tuple(Refused(key, why) for key in keys)


_CHK = "execution.checkpointing."
_LATER = "it comes with a later release"
_SUBDIR = "checkpoints of a job always lie below its id"
_MERGING = "Holdfast writes each state file once and lets small ones go into the metadata"
_LOCAL = "a region resumes from its own query log in holdfast.work.dir, which needs no second copy"
_CLEANER = "what nobody needs is deleted beside the job, by one thread"
_CHANNEL_STATE = (
    "in-flight data are the channels' own segments: linked where work and checkpoints are on one "
    "disk, else copied file by file"
)
_NOTHING_TO_FORCE = "every channel between regions can be unaligned, so there is nothing to force"
_CHANGELOG = f"use {_CHK}incremental with state.backend.type rocksdb, which turns on Spark's own"
_BUFFERS = "the storage libraries choose their buffers"
_FLINK_PROCESSES = "it is about Flink's own processes; Spark's are set with spark.* keys"

_CHECKPOINTING = (
    Refused(f"{_CHK}create-subdir", _SUBDIR, ("true",)),
    Refused("state.checkpoints.create-subdir", _SUBDIR, ("true",)),
    *_any(f"{_CHK}interval-during-backlog", why="Spark's sources do not report a backlog"),
    Refused(f"{_CHK}sync-phase-timeout", f"use {_CHK}timeout", ("0",), DURATION),
    *_off(f"{_CHK}snapshot-compression", why="Spark compresses its state files itself"),
    Refused(f"{_CHK}cleaner.parallel-mode", _CLEANER, ("true",)),
    Refused("state.checkpoint.cleaner.parallel-mode", _CLEANER, ("true",)),
    Refused(f"{_CHK}write-buffer-size", _BUFFERS, ("4096",), INTEGER),
    Refused("state.storage.fs.write-buffer-size", _BUFFERS, ("4096",), INTEGER),
    Refused("state.backend.fs.write-buffer-size", _BUFFERS, ("4096",), INTEGER),
    *_off(f"{_CHK}local-backup.enabled", "state.backend.local-recovery", why=_LOCAL),
    *_any(f"{_CHK}local-backup.dirs", "taskmanager.state.local.root-dirs", why=_LOCAL),
    *_off("execution.state-recovery.from-local", why=_LOCAL),
    *_off(f"{_CHK}unaligned.forced", why=_NOTHING_TO_FORCE),
    Refused(
        f"{_CHK}unaligned.max-subtasks-per-channel-state-file", _CHANNEL_STATE, ("5",), INTEGER
    ),
    *_off(
        f"{_CHK}unaligned.interruptible-timers.enabled",
        why="a barrier falls between micro-batches, so no timer is ever interrupted",
    ),
    Refused(
        f"{_CHK}unaligned.interruptible-timers.emit-intermediate-watermarks",
        "Spark moves the watermark once per micro-batch",
        ("true",),
    ),
    *_off(f"{_CHK}unaligned.recover-output-on-downstream.enabled", why=_CHANNEL_STATE),
    *_off(
        f"{_CHK}during-recovery.enabled",
        why="checkpoints are taken as soon as the regions run, in-flight data need no draining",
    ),
    *_off(
        f"{_CHK}file-merging.enabled",
        f"{_CHK}file-merging.across-checkpoint-boundary",
        f"{_CHK}file-merging.pool-blocking",
        why=_MERGING,
    ),
    Refused(f"{_CHK}file-merging.max-file-size", _MERGING, ("32 mb",), SIZE),
    Refused(f"{_CHK}file-merging.max-space-amplification", _MERGING, ("2.0",), NUMBER),
    Refused(f"{_CHK}file-merging.max-subtasks-per-file", _MERGING, ("4",), INTEGER),
    *_any(f"{_CHK}file-merging.*", why=_MERGING),
    *_off(
        "pipeline.sources.pause-until-first-checkpoint",
        why="sources read from the first micro-batch on",
    ),
    *_off("state.changelog.enabled", why=_CHANGELOG),
    *_any("state.changelog.*", why=_CHANGELOG),
)

_RECOVERY = (
    Refused("execution.state-recovery.claim-mode", _LATER, ("no-claim",)),
    Refused("execution.savepoint-restore-mode", _LATER, ("no-claim",)),
    *_off(
        "execution.state-recovery.ignore-unclaimed-state",
        "execution.savepoint.ignore-unclaimed-state",
        why=_LATER,
    ),
    Refused(
        "execution.state-recovery.without-channel-state.checkpoint-id", _LATER, ("-1",), INTEGER
    ),
    Refused(f"{_CHK}recover-without-channel-state.checkpoint-id", _LATER, ("-1",), INTEGER),
    *_off(
        "execution.state-recovery.approximate-local-recovery",
        f"{_CHK}approximate-local-recovery",
        why="rows would be lost",
    ),
    Refused("high-availability", _LATER, ("none", "disable", "off")),
    Refused("high-availability.type", _LATER, ("none", "disable", "off")),
    *_any("high-availability.*", why=_LATER),
    Refused("sink.committer.retries", "a commit is tried until it succeeds", ("10",), INTEGER),
)

_ROCKS = "state.backend.rocksdb."
_COMPACTION = "Spark leaves compaction to RocksDB's defaults"
_OPTIONS = "Spark does not let programs set RocksDB's options; see the state.backend.rocksdb keys"
_BLOOM = "Spark always builds Bloom filters, with RocksDB's 10 bits per key"
_RESCALING = "Spark's state partitions are rebuilt when their number changes, not cut"

_ROCKSDB = (
    Refused(f"{_ROCKS}use-bloom-filter", _BLOOM, ("true", "false"), BOOLEAN),
    Refused(f"{_ROCKS}bloom-filter.bits-per-key", _BLOOM, ("10.0",), NUMBER),
    *_off(f"{_ROCKS}bloom-filter.block-based-mode", why=_BLOOM),
    Refused(f"{_ROCKS}block.metadata-blocksize", "Spark has no such setting", ("4 kb",), SIZE),
    *_off(f"{_ROCKS}memory.partitioned-index-filters", why="Spark has no such setting"),
    Refused(f"{_ROCKS}compaction.style", _COMPACTION, ("level",)),
    *_off(f"{_ROCKS}compaction.level.use-dynamic-size", why=_COMPACTION),
    Refused(f"{_ROCKS}compaction.level.target-file-size-base", _COMPACTION, ("64 mb",), SIZE),
    Refused(f"{_ROCKS}compaction.level.max-size-level-base", _COMPACTION, ("256 mb",), SIZE),
    *_any(f"{_ROCKS}compaction.filter.*", why="Spark removes expired state itself"),
    *_any(f"{_ROCKS}manual-compaction.*", why=_COMPACTION),
    Refused(f"{_ROCKS}thread.num", "Spark leaves it to RocksDB's default", ("2",), INTEGER),
    Refused(f"{_ROCKS}writebuffer.number-to-merge", "Spark has no such setting", ("1",), INTEGER),
    Refused(f"{_ROCKS}write-batch-size", "Spark has no such setting", ("2 mb",), SIZE),
    Refused(f"{_ROCKS}checkpoint.transfer.thread.num", "Spark moves the files", ("4",), INTEGER),
    *_any(f"{_ROCKS}localdir", why="use spark.local.dir"),
    *_any(f"{_ROCKS}options-factory", why=_OPTIONS),
    Refused(f"{_ROCKS}predefined-options", _OPTIONS, ("default",)),
    Refused(f"{_ROCKS}timer-service.factory", "timers are always in RocksDB", ("rocksdb",)),
    Refused(f"{_ROCKS}timer-service.cache-size", "Spark has no such cache", ("128",), INTEGER),
    *_any(f"{_ROCKS}log.*", why="RocksDB's messages go to the executors' log"),
    *_any(f"{_ROCKS}metrics.*", why="Spark reports RocksDB's figures with every micro-batch"),
    *_off(
        f"{_ROCKS}incremental-restore-async-compact-after-rescale",
        f"{_ROCKS}rescaling.use-delete-files-in-range",
        f"{_ROCKS}use-ingest-db-restore-mode",
        why=_RESCALING,
    ),
    Refused(f"{_ROCKS}restore-overlap-fraction-threshold", _RESCALING, ("0.0",), NUMBER),
    *_any("state.backend.forst.*", why="use state.backend.type hashmap or rocksdb"),
)

_OTHERS = (
    *_any("rest.bind-port", "jobmanager.web.port", why="use rest.port"),
    *_any("rest.bind-address", "web.address", "jobmanager.web.address", why="use rest.address"),
    Refused("rest.async.store-duration", _LATER, ("5 min",), DURATION),
    *_any("pipeline.max-parallelism", why=_LATER),
    *_any("pipeline.*", "table.*", why="a job is described in Python, with Spark's functions"),
    *_any("state.latency-track.*", "state.size-track.*", why="Spark reports on its state itself"),
    Refused(
        "heartbeat.rpc-failure-threshold", "a runner whose pipe is closed is gone", ("2",), INTEGER
    ),
    *_any("task.cancellation.*", why=_FLINK_PROCESSES),
    *_any("jobmanager.*", "taskmanager.*", "env.*", "kubernetes.*", "yarn.*", why=_FLINK_PROCESSES),
)

REFUSED: tuple[Refused, ...] = (*_CHECKPOINTING, *_RECOVERY, *_ROCKSDB, *_OTHERS)

SPARK_KEYS_OF_HOLDFAST = {
    PROVIDER_CLASS: "use state.backend.type",
    FORMAT_VERSION: "it follows from state.backend.type",
    CHANGELOG: f"use {_CHK}incremental",
    "spark.scheduler.mode": "regions share the executors fairly and there is no key to change that",
    "spark.sql.streaming.checkpointLocation": "use holdfast.work.dir",
}


def refusal_of(key: str) -> Refused | None:
    """What is said of a Flink key that Holdfast does not act on."""
    return next((refused for refused in REFUSED if refused.covers(key)), None)


def spark_refusal_of(key: str) -> str | None:
    """What to do instead of setting this Spark key; Spark reads some in any case."""
    by_folded = {name.lower(): instead for name, instead in SPARK_KEYS_OF_HOLDFAST.items()}
    return by_folded.get(key.lower())
