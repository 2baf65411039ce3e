"""Rules between settings. A rule is silent where a value it needs could not be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.settings import failing as f
from holdfast.settings import options as o
from holdfast.settings.model import Backend, BoundedRestart, Mode
from holdfast.settings.options import Option
from holdfast.settings.problems import Problem
from holdfast.settings.reading import Values
from holdfast.settings.refused import spark_refusal_of
from holdfast.settings.rocksdb import (
    HIGH_PRIORITY_RATIO,
    MEMORY_PER_SLOT,
    MEMORY_PER_TASK_MANAGER,
    ROCKSDB_OPTIONS,
    WRITE_BUFFER_RATIO,
    key_behind,
)

SPARK_RATIOS: dict[Option[Any], float] = {WRITE_BUFFER_RATIO: 0.5, HIGH_PRIORITY_RATIO: 0.1}

_NO_CHECKPOINTS = f"asks for checkpoints, which {o.MODE.key} at-most-once does without"
_ROOT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?)?/*")


def check(values: Values, state_spark: Mapping[str, str]) -> None:
    """Note what does not go together."""
    _check_unaligned(values)
    _check_at_most_once(values)
    _check_order(values, f.INITIAL_BACKOFF, f.MAX_BACKOFF)
    _check_order(values, f.HEARTBEAT_INTERVAL, f.HEARTBEAT_TIMEOUT)
    _check_rocksdb(values)
    _check_memory(values)
    _check_ratios(values)
    _check_work_dir(values)
    _check_spark(values, state_spark)


def _check_unaligned(values: Values) -> None:
    if not values.are_sound(o.UNALIGNED, o.MODE, o.MAX_CONCURRENT) or not values.get(o.UNALIGNED):
        return
    if values.get(o.MODE) is not Mode.EXACTLY_ONCE:
        values.complain(o.UNALIGNED, f"needs {o.MODE.key} exactly-once")
    if values.get(o.MAX_CONCURRENT) != 1:
        values.complain(o.MAX_CONCURRENT, f"must be 1 with {o.UNALIGNED.key}")


def _check_at_most_once(values: Values) -> None:
    if not values.are_sound(o.MODE) or values.get(o.MODE) is not Mode.AT_MOST_ONCE:
        return
    if values.find(o.INTERVAL) is not None:
        values.complain(o.INTERVAL, _NO_CHECKPOINTS)
    if values.get(o.EVERY_BATCH):
        values.complain(o.EVERY_BATCH, _NO_CHECKPOINTS)
    if values.get(f.BOUNDED_RESTART) is BoundedRestart.SCRATCH:
        values.complain(f.BOUNDED_RESTART, f"counts rows again, unlike {o.MODE.key} at-most-once")


def _check_order(values: Values, shorter: Option[float], longer: Option[float]) -> None:
    if not values.are_sound(shorter, longer) or values.get(shorter) <= values.get(longer):
        return
    if shorter.key in values.given:
        values.complain(shorter, f"must not be longer than {longer.key}")
    else:
        values.complain(longer, f"must not be shorter than {shorter.key} ({shorter.default})")


def _check_rocksdb(values: Values) -> None:
    if not values.are_sound(o.BACKEND) or values.get(o.BACKEND) is Backend.ROCKSDB:
        return
    for option in ROCKSDB_OPTIONS:
        if option.key in values.given:
            values.complain(option, f"needs {o.BACKEND.key} rocksdb")


def _check_memory(values: Values) -> None:
    slot, task_manager = values.find(MEMORY_PER_SLOT), values.find(MEMORY_PER_TASK_MANAGER)
    if slot is not None and task_manager not in {None, slot}:
        values.complain(MEMORY_PER_SLOT, f"differs from {MEMORY_PER_TASK_MANAGER.key}; give one")


def _check_ratios(values: Values) -> None:
    ratios = {option: values.find(option) or default for option, default in SPARK_RATIOS.items()}
    given = [option for option in ratios if option.key in values.read]
    if given and sum(ratios.values()) >= 1:
        said = " and ".join(f"{option.key} ({ratio})" for option, ratio in ratios.items())
        values.complain(given[0], f"is too much: {said} must be less than 1 together")


def _check_work_dir(values: Values) -> None:
    directory = values.get(o.WORK_DIR).rstrip("/")
    if _ROOT.fullmatch(directory) or directory.rsplit("/", 1)[-1] in {".", ".."}:
        values.complain(
            o.WORK_DIR, "must be a named directory, for other directories are made beside it"
        )


def _check_spark(values: Values, state_spark: Mapping[str, str]) -> None:
    taken = {key.lower(): key_behind(key) for key in state_spark if not spark_refusal_of(key)}
    for option, key in (
        (o.PARALLELISM, "spark.sql.shuffle.partitions"),
        (o.MASTER, "spark.master"),
    ):
        if option.key in values.given:
            taken[key.lower()] = option.key
    for key, entry in values.spark.items():
        if key.lower() in taken:
            text = f"is also said by {taken[key.lower()]}; give one"
            values.problems.append(Problem(key, entry.origin, text, entry.text))
