"""State as rows: what ``read_state`` returns, judged by counting the input again in Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast import querylog
from holdfast.errors import UsageError
from tests.spark.backends import BACKENDS, HASHMAP, ROCKSDB_1, ROCKSDB_2_CHANGELOG, Backend
from tests.spark.conftest import BaseOf
from tests.spark.inputs import Event, left_events, right_events, watermark_after
from tests.spark.processors import PATIENCE_MS, parity
from tests.spark.running import BASE_FILES
from tests.spark.workloads import (
    AGGREGATION,
    DEDUPLICATED_WINDOWS,
    OUTER_JOIN,
    OUTER_JOIN_STATE_3,
    STATELESS,
    TRANSFORM_WITH_STATE,
    TRANSFORM_WITH_STATE_TTL,
    Workload,
)

ON_EVERY_BACKEND = pytest.mark.parametrize("backend", BACKENDS, ids=[b.name for b in BACKENDS])
ON_TWO_ROCKSDBS = pytest.mark.parametrize(
    "backend", [ROCKSDB_1, ROCKSDB_2_CHANGELOG], ids=["rocksdb-1", "rocksdb-2-changelog"]
)


@ON_EVERY_BACKEND
@pytest.mark.parametrize("batch", [None, 0, 1])
def test_an_aggregation_has_one_row_per_key(
    backend: Backend, batch: int | None, base_of: BaseOf, spark: SparkSession
) -> None:
    base = base_of(AGGREGATION, backend)

    rows = querylog.read_state(spark, base.log, batch=batch)

    files = BASE_FILES if batch is None else batch + 1
    assert _flat(rows, "key.k", "value.count", "value.sum") == Counter(
        (k, len(events), sum(e.v for e in events)) for k, events in _by_key(files).items()
    )


@ON_EVERY_BACKEND
@pytest.mark.parametrize("workload", [OUTER_JOIN, OUTER_JOIN_STATE_3], ids=lambda w: w.name)
def test_a_join_keeps_on_each_side_what_may_still_match(
    workload: Workload, backend: Backend, base_of: BaseOf, spark: SparkSession
) -> None:
    log = base_of(workload, backend).log
    watermark = watermark_after(BASE_FILES - 1)

    left = querylog.read_state(spark, log, store="left")
    right = querylog.read_state(spark, log, store="right")

    # A right row matches left rows of the 20 seconds before it.
    assert _flat(left, "value.lk", "value.lv", "unix_millis(value.lts)") == Counter(
        (e.k, e.v, e.millis) for e in _all(left_events) if not e.late and e.second + 20 >= watermark
    )
    assert _flat(right, "value.rk", "value.rv", "unix_millis(value.rts)") == Counter(
        (e.k, e.v, e.millis) for e in _all(right_events) if not e.late and e.second >= watermark
    )


def test_every_store_of_a_join_can_be_read_by_its_name(
    base_of: BaseOf, spark: SparkSession
) -> None:
    log = base_of(OUTER_JOIN, ROCKSDB_2_CHANGELOG).log
    (operator,) = querylog.inspect(log).operators
    assert len(operator.stores) == 4
    for store in operator.stores:
        assert querylog.read_state(spark, log, store=store.name).count() == store.keys


@ON_TWO_ROCKSDBS
def test_each_variable_of_transform_with_state_is_a_table(
    backend: Backend, base_of: BaseOf, spark: SparkSession
) -> None:
    log = base_of(TRANSFORM_WITH_STATE, backend).log

    def table(variable: str, *columns: str) -> Counter[tuple[Any, ...]]:
        return _flat(querylog.read_state(spark, log, variable=variable), *columns)

    remembered = _not_yet_quiet()
    assert table("count", "key.k", "value.count") == _counts(remembered)
    assert table("listed", "key.k", "list_element.v") == _lists(remembered)
    assert table("mapped", "key.k", "user_map_key.parity", "user_map_value.v") == _maps(remembered)
    assert table("timers", "key.k", "expiration_timestamp_ms") == Counter(
        (k, max(e.millis for e in events) + PATIENCE_MS) for k, events in remembered.items()
    )


def test_variables_with_a_time_to_live_are_tables_too(base_of: BaseOf, spark: SparkSession) -> None:
    log = base_of(TRANSFORM_WITH_STATE_TTL, ROCKSDB_2_CHANGELOG).log

    def table(variable: str, *columns: str) -> Counter[tuple[Any, ...]]:
        return _flat(querylog.read_state(spark, log, variable=variable), *columns)

    everything = _by_key(BASE_FILES)
    assert table("count", "key.k", "value.value.count") == _counts(everything)
    assert table("listed", "key.k", "list_element.value.v") == _lists(everything)
    assert table("mapped", "key.k", "user_map_key.parity", "user_map_value.value.v") == _maps(
        everything
    )


def test_operators_of_one_query_are_told_apart_by_number(
    base_of: BaseOf, spark: SparkSession
) -> None:
    log = base_of(DEDUPLICATED_WINDOWS, HASHMAP).log
    windows = querylog.read_state(spark, log, operator=0)
    seen = querylog.read_state(spark, log, operator=1)
    assert windows.select("key.*").columns == ["window", "k"]
    assert seen.select("key.*").columns == ["k", "ts"]


def test_a_copy_has_the_same_state(base_of: BaseOf, spark: SparkSession, tmp_path: Path) -> None:
    log = base_of(TRANSFORM_WITH_STATE, ROCKSDB_2_CHANGELOG).log
    querylog.copy(log, tmp_path / "copy", batch=1)
    for variable in ("count", "listed", "mapped", "timers"):
        copied = querylog.read_state(spark, tmp_path / "copy", variable=variable)
        original = querylog.read_state(spark, log, variable=variable, batch=1)
        assert _flat(copied, "*") == _flat(original, "*") != Counter()


def test_reading_state_leaves_the_session_as_it_was(base_of: BaseOf, spark: SparkSession) -> None:
    before = {row.key: row.value for row in spark.sql("SET").collect()}
    querylog.read_state(spark, base_of(AGGREGATION, ROCKSDB_2_CHANGELOG).log).count()
    assert {row.key: row.value for row in spark.sql("SET").collect()} == before


def test_an_unknown_operator_is_refused_with_the_known_ones(
    base_of: BaseOf, spark: SparkSession
) -> None:
    log = base_of(DEDUPLICATED_WINDOWS, HASHMAP).log
    with pytest.raises(UsageError) as refusal:
        querylog.read_state(spark, log, operator=2)
    assert "0 (stateStoreSave), 1 (dedupe)" in str(refusal.value)


def test_a_query_without_state_is_refused(base_of: BaseOf, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="no state"):
        querylog.read_state(spark, base_of(STATELESS, HASHMAP).log)


@pytest.mark.parametrize("store", [None, "middle"])
def test_an_unknown_store_is_refused_with_the_known_ones(
    store: str | None, base_of: BaseOf, spark: SparkSession
) -> None:
    log = base_of(OUTER_JOIN, HASHMAP).log
    with pytest.raises(UsageError) as refusal:
        querylog.read_state(spark, log, store=store)
    known = ["left", "right", "left-keyToNumValues", "left-keyWithIndexToValue"]
    known += ["right-keyToNumValues", "right-keyWithIndexToValue"]
    assert _choices(refusal.value) == known


@pytest.mark.parametrize("store", [None, "default", "middle"])
def test_only_readable_stores_of_a_join_in_one_store_are_offered(
    store: str | None, base_of: BaseOf, spark: SparkSession
) -> None:
    """State format 3 keeps four tables in one store, which Spark cannot read as a whole."""
    log = base_of(OUTER_JOIN_STATE_3, ROCKSDB_2_CHANGELOG).log
    with pytest.raises(UsageError) as refusal:
        querylog.read_state(spark, log, store=store)
    for choice in _choices(refusal.value):
        assert querylog.read_state(spark, log, store=choice).count() > 0


def test_a_store_is_refused_where_there_is_only_the_default_one(
    base_of: BaseOf, spark: SparkSession
) -> None:
    with pytest.raises(UsageError) as refusal:
        querylog.read_state(spark, base_of(AGGREGATION, HASHMAP).log, store="left")
    assert _choices(refusal.value) == ["default"]


@pytest.mark.parametrize("variable", [None, "total"])
def test_an_unknown_variable_is_refused_with_the_known_ones(
    variable: str | None, base_of: BaseOf, spark: SparkSession
) -> None:
    log = base_of(TRANSFORM_WITH_STATE, ROCKSDB_1).log
    with pytest.raises(UsageError) as refusal:
        querylog.read_state(spark, log, variable=variable)
    assert _choices(refusal.value) == ["count", "listed", "mapped", "timers"]


def test_a_variable_is_refused_where_there_are_none(base_of: BaseOf, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="no state variables"):
        querylog.read_state(spark, base_of(AGGREGATION, HASHMAP).log, variable="count")


def _flat(rows: DataFrame, *columns: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in rows.selectExpr(*columns).collect())


def _choices(error: UsageError) -> list[str]:
    assert error.hint is not None
    return error.hint.removeprefix("Choose one of: ").rstrip(".").split(", ")


def _all(events_of: Any) -> list[Event]:
    return [event for n in range(BASE_FILES) for event in events_of(n)]


def _by_key(files: int) -> dict[str, list[Event]]:
    found = defaultdict(list)
    for n in range(files):
        for event in left_events(n):
            found[event.k].append(event)
    return dict(found)


def _not_yet_quiet() -> dict[str, list[Event]]:
    """What ``CountUntilQuiet`` remembers: keys leave when the watermark passes their timer."""
    found: dict[str, list[Event]] = {}
    for n in range(BASE_FILES):
        for event in left_events(n):
            if not event.late:
                found.setdefault(event.k, []).append(event)
        heard = watermark_after(n) - PATIENCE_MS // 1000
        found = {k: es for k, es in found.items() if max(e.second for e in es) > heard}
    return found


def _counts(events: dict[str, list[Event]]) -> Counter[tuple[Any, ...]]:
    return Counter((k, len(es)) for k, es in events.items())


def _lists(events: dict[str, list[Event]]) -> Counter[tuple[Any, ...]]:
    return Counter((k, e.v) for k, es in events.items() for e in es)


def _maps(events: dict[str, list[Event]]) -> Counter[tuple[Any, ...]]:
    largest: dict[tuple[str, str], int] = {}
    for k, es in events.items():
        for e in es:
            entry = (k, parity(e.v))
            largest[entry] = max(e.v, largest.get(entry, 0))
    return Counter((*entry, v) for entry, v in largest.items())
