"""Settings of a job from everywhere they can be given, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.settings import failing as f
from holdfast.settings import options as o
from holdfast.settings.checks import check
from holdfast.settings.known import OPTIONS
from holdfast.settings.layers import (
    ARGUMENT,
    CODE,
    DEFAULT,
    Layer,
    layer_of,
    layer_of_environment,
    layer_of_file,
)
from holdfast.settings.model import (
    Backend,
    Checkpointing,
    Described,
    Mode,
    Settings,
    StorageKind,
)
from holdfast.settings.problems import refuse, shown
from holdfast.settings.reading import Values, read_layers
from holdfast.settings.rocksdb import ROCKSDB_OPTIONS, hashmap_spark, rocksdb_spark

LONGEST_PAUSE = 365 * 86_400.0


def resolve(
    *,
    arguments: Mapping[str, str],
    environ: Mapping[str, str],
    file: Path | None,
    code: Mapping[str, object],
) -> Settings:
    """The settings of a job: arguments before environment before file before code before defaults.

    Reads no file but ``file``. Raises one ``SettingsError`` that names every problem.
    """
    layers = (
        layer_of(arguments, ARGUMENT),
        layer_of_environment(environ),
        layer_of_file(file) if file is not None else Layer(),
        layer_of(code, CODE),
    )
    values = read_layers(layers)
    state_spark = _state_spark(values)
    check(values, state_spark)
    refuse(values.problems)
    return _settings(values, state_spark)


def _state_spark(values: Values) -> dict[str, str]:
    if values.get(o.BACKEND) is Backend.HASHMAP:
        return hashmap_spark()
    return rocksdb_spark(values.find, incremental=values.get(o.INCREMENTAL))


def _settings(values: Values, state_spark: Mapping[str, str]) -> Settings:
    checkpointing, history_dir = _checkpointing(values), _history_dir(values)
    restart = _restart_type(values)
    derived = {
        o.DIR.key: checkpointing.dir,
        o.HISTORY_DIR.key: history_dir,
        f.RESTART.key: restart,
    }
    return Settings(
        checkpointing=checkpointing,
        backend=values.get(o.BACKEND),
        state_spark=state_spark,
        parallelism=values.find(o.PARALLELISM),
        trigger=values.get(o.TRIGGER),
        every_batch=values.get(o.EVERY_BATCH),
        master=values.find(o.MASTER),
        work_dir=values.get(o.WORK_DIR),
        history_dir=history_dir,
        channel_capacity=values.get(o.CHANNEL_CAPACITY),
        batch_bytes=values.get(o.BATCH_BYTES),
        rest_address=values.get(o.REST_ADDRESS),
        rest_port=values.get(o.REST_PORT),
        restore_path=values.find(o.RESTORE_PATH),
        restart=f.strategy_of(restart, values.get),
        failover=values.get(f.FAILOVER),
        failure_rules=values.find(f.FAILURE_RULES) or (),
        bounded_restart=values.get(f.BOUNDED_RESTART),
        heartbeat_interval=values.get(f.HEARTBEAT_INTERVAL),
        heartbeat_timeout=values.get(f.HEARTBEAT_TIMEOUT),
        stuck_timeout=values.get(f.STUCK_TIMEOUT) or None,
        exception_history_size=values.get(f.EXCEPTION_HISTORY_SIZE),
        spark={key: entry.text for key, entry in values.spark.items()},
        described=tuple(_described(values, derived)),
    )


def _checkpointing(values: Values) -> Checkpointing:
    min_pause = min(values.get(o.MIN_PAUSE), LONGEST_PAUSE)
    interval = values.find(o.INTERVAL)
    return Checkpointing(
        interval=None if interval is None else max(interval, min_pause),
        mode=values.get(o.MODE),
        unaligned=values.get(o.UNALIGNED),
        aligned_timeout=values.get(o.ALIGNED_TIMEOUT),
        min_pause=min_pause,
        timeout=values.get(o.TIMEOUT),
        max_concurrent=values.get(o.MAX_CONCURRENT),
        tolerable_failed=values.get(o.TOLERABLE_FAILED),
        num_retained=values.get(o.NUM_RETAINED),
        retention=values.get(o.RETENTION),
        storage=values.get(o.STORAGE),
        dir=_checkpoint_dir(values),
        savepoint_dir=values.find(o.SAVEPOINT_DIR),
        incremental=values.get(o.INCREMENTAL),
        inline_threshold=values.get(o.INLINE_THRESHOLD),
        after_tasks_finish=values.get(o.AFTER_TASKS_FINISH),
        history=values.get(o.HISTORY),
    )


def _restart_type(values: Values) -> str:
    """As in Flink: a job that takes checkpoints wants to go on from them."""
    by_itself = values.find(o.INTERVAL) is not None or values.get(o.EVERY_BATCH)
    goes_on = by_itself or values.get(o.MODE) is Mode.AT_MOST_ONCE
    return values.find(f.RESTART) or (f.EXPONENTIAL_DELAY if goes_on else f.NONE)


def _checkpoint_dir(values: Values) -> str | None:
    given = values.find(o.DIR)
    if given is None and values.get(o.STORAGE) is StorageKind.FILESYSTEM:
        return _beside(values.get(o.WORK_DIR), "checkpoints")
    return given


def _history_dir(values: Values) -> str:
    return values.find(o.HISTORY_DIR) or _beside(values.get(o.WORK_DIR), "history")


def _beside(directory: str, name: str) -> str:
    return re.sub(r"[^/]*$", "", directory.rstrip("/")) + name


def _described(values: Values, derived: Mapping[str, str | None]) -> Iterator[Described]:
    for option in OPTIONS:
        entry = values.given.get(option.key)
        if entry is not None:
            yield Described(option.key, shown(option.key, entry.text), entry.origin)
        elif option not in ROCKSDB_OPTIONS:
            value = derived.get(option.key) or option.default or "(none)"
            yield Described(option.key, value, DEFAULT)
    for key in sorted(values.spark):
        yield Described(key, shown(key, values.spark[key].text), values.spark[key].origin)
