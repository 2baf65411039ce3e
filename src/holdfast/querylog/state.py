"""State as rows, read by Spark's own state reader."""

from __future__ import annotations

import atexit
from os import PathLike, fspath
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.querylog.copying import copy
from holdfast.querylog.inspection import variables
from holdfast.querylog.log import QueryLog, open_log
from holdfast.querylog.operators import DEFAULT_STORE, Operator
from holdfast.querylog.planning import schema_files
from holdfast.querylog.selection import restorable_plan
from holdfast.storage import is_object_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMERS = "timers"
_JOIN = "symmetricHashJoin"
_JOIN_SIDES = ("left", "right")
# Spark's reader takes these names also where newer state formats keep all four in one store.
_JOIN_STORES = tuple(
    f"{side}-{store}" for side in _JOIN_SIDES for store in ("keyToNumValues", "keyWithIndexToValue")
)
_FORMAT_SETTING = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def read_state(
    spark: SparkSession,
    location: str | PathLike[str],
    operator: int = 0,
    store: str | None = None,
    variable: str | None = None,
    batch: int | None = None,
) -> DataFrame:
    """The state of one operator at a committed batch (the newest by default), one row per key.

    Columns are ``partition_id``, ``key`` and ``value``, as Spark's state reader gives them.
    ``store`` is needed for joins: ``left`` or ``right`` for the rows of a side, or the name of one
    of the four stores. ``variable`` is needed for transformWithState with several variables;
    ``timers`` reads its timers. ``spark`` may be the session of a running query: nothing in it is
    changed.
    """
    log = open_log(location)
    plan = restorable_plan(log, batch)
    described = _operator(log, operator, plan.batch)
    options = {
        "batchId": str(plan.batch),
        "operatorId": str(operator),
        **_store_options(described, operator, store),
        **_variable_options(log, described, operator, variable),
    }
    # The reader takes the format from the session, and fails on the other one.
    session = spark.newSession()
    session.conf.set(_FORMAT_SETTING, str(log.commit(plan.batch).state_format))
    place = _readable_by_spark(fspath(location), plan.batch)
    return session.read.format("statestore").options(**options).load(place)


def _readable_by_spark(location: str, batch: int) -> str:
    """The location itself, or a copy on this machine that is removed when Python ends.

    Spark as it comes from PyPI has no client for object stores; Holdfast has.
    """
    from holdfast.spark.hadoop import hadoop_knows

    if not is_object_store(location) or hadoop_knows(location):
        return location
    scratch = mkdtemp(prefix="holdfast-state-")
    atexit.register(rmtree, scratch, ignore_errors=True)
    return copy(location, f"{scratch}/log", batch).destination


def _operator(log: QueryLog, number: int, batch: int) -> Operator:
    numbers = log.operator_ids
    if not numbers:
        raise UsageError("the query keeps no state", path=log.storage.uri)
    if number not in numbers:
        known = ", ".join(f"{n} ({log.operator(n, batch).name})" for n in numbers)
        raise UsageError(
            f"there is no stateful operator {number}",
            hint=f"Operators of this query: {known}.",
            path=log.storage.uri,
        )
    return log.operator(number, batch)


def _store_options(operator: Operator, number: int, store: str | None) -> dict[str, str]:
    if operator.name != _JOIN:
        if store in (None, DEFAULT_STORE):
            return {}
        raise _wrong_store(store, operator.stores, number)
    if store in _JOIN_SIDES:
        return {"joinSide": str(store)}
    if store in _JOIN_STORES:
        return {"storeName": str(store)}
    raise _wrong_store(store, (*_JOIN_SIDES, *_JOIN_STORES), number)


def _wrong_store(store: str | None, choices: tuple[str, ...], number: int) -> UsageError:
    what = "say which side of the join" if store is None else f"there is no store {store!r}"
    return UsageError(what, hint=f"Choose one of: {', '.join(choices)}.", operator=number)


def _variable_options(
    log: QueryLog, operator: Operator, number: int, variable: str | None
) -> dict[str, str]:
    names = variables(log, number, operator)
    if not operator.name.startswith("transformWithState"):
        if variable is None:
            return {}
        raise UsageError(f"{operator.name} has no state variables", operator=number)
    timers = _has_timers(log, operator, number)
    if variable in names:
        return {"stateVarName": str(variable)}
    if variable == TIMERS and timers:
        return {"readRegisteredTimers": "true"}
    if variable is None and len(names) == 1:
        return {"stateVarName": names[0]}
    choices = [*names, *([TIMERS] if timers else ())]
    what = "say which variable" if variable is None else f"there is no variable {variable!r}"
    raise UsageError(what, hint=f"Choose one of: {', '.join(choices)}.", operator=number)


def _has_timers(log: QueryLog, operator: Operator, number: int) -> bool:
    families = (
        family.name
        for store in operator.stores
        for path in schema_files(number, store, operator)
        if path in log.files
        for family in log.schema(path).families
    )
    return any("Timers_" in name for name in families)
