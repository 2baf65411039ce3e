"""Everything a query log tells about its query, without starting Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from os import PathLike
from typing import Any

from holdfast.errors import QueryLogError
from holdfast.querylog.activity import Activity, find_activity
from holdfast.querylog.batches import Commit, Offsets
from holdfast.querylog.keys import KeyCount, count_keys
from holdfast.querylog.log import QueryLog, open_log
from holdfast.querylog.needs import Plan, StoreVersion
from holdfast.querylog.operators import KINDS, Operator, counts_rows
from holdfast.querylog.planning import schema_files
from holdfast.querylog.progress import in_parallel
from holdfast.querylog.selection import restorable_batches
from holdfast.querylog.sourcelog import log_offset


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One source: from where to where the newest committed batch read it."""

    name: str
    kind: str
    start: Any
    end: Any
    planned: Any
    """How far the unfinished batch is going to read, if there is one."""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """One state store of an operator, all partitions together."""

    name: str
    keys: int | None
    keys_exact: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """One stateful operator at the newest committed batch."""

    id: int
    name: str
    kind: str
    backend: str
    format: str
    partitions: int
    keys: int | None
    keys_exact: bool
    bytes: int
    stores: tuple[StoreReport, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What ``holdfast log inspect`` shows."""

    uri: str
    query_id: str
    offsets_version: int | None
    commits_version: int | None
    batch: int | None
    """The newest committed batch; sources and watermark are told as of it."""
    state_batch: int | None
    """The newest batch that can be restored; operators are told as of it."""
    committed: tuple[int, ...]
    unfinished: tuple[int, ...]
    restorable: tuple[int, ...]
    not_restorable: Mapping[int, str]
    watermark_ms: int | None
    sources: tuple[SourceReport, ...]
    operators: tuple[OperatorReport, ...]
    activity: Activity
    settings: Mapping[str, str] = field(default_factory=dict)


def inspect(location: str | PathLike[str], clock: Callable[[], float] = time.time) -> Inspection:
    """Look into a query log. Needs no Spark and changes nothing.

    What is damaged is left out; ``not_restorable`` and ``verify`` say what it is.
    """
    log = open_log(location)
    plans = restorable_batches(log)
    good = tuple(sorted(b for b, plan in plans.items() if not plan.problems))
    bad = {b: _why(plan) for b, plan in plans.items() if plan.problems}
    batch = log.committed[-1] if log.committed else None
    offsets = _offsets(log, batch if batch is not None else (log.unfinished or (None,))[0])
    commit = _commit(log, batch)
    state_batch = good[-1] if good else None
    return Inspection(
        uri=log.storage.uri,
        query_id=log.query_id,
        offsets_version=offsets.version if offsets else None,
        commits_version=commit.version if commit else None,
        batch=batch,
        state_batch=state_batch,
        committed=log.committed,
        unfinished=log.unfinished,
        restorable=good,
        not_restorable=bad,
        watermark_ms=commit.next_watermark_ms if commit else None,
        sources=_sources(log, batch),
        operators=() if state_batch is None else _operators(log, plans[state_batch]),
        activity=find_activity(log, clock()),
        settings=dict(offsets.settings) if offsets else {},
    )


def _why(plan: Plan) -> str:
    first = plan.problems[0]
    more = f" (and {len(plan.problems) - 1} more)" if len(plan.problems) > 1 else ""
    return f"{first.what}: {first.path}{more}"


def _offsets(log: QueryLog, batch: int | None) -> Offsets | None:
    if batch is None or batch not in log.batches("offsets"):
        return None
    with suppress(QueryLogError):
        return log.offsets(batch)
    return None


def _commit(log: QueryLog, batch: int | None) -> Commit | None:
    with suppress(QueryLogError):
        return None if batch is None else log.commit(batch)
    return None


def _sources(log: QueryLog, batch: int | None) -> tuple[SourceReport, ...]:
    before = _offsets(log, batch - 1 if batch else None)
    at = _offsets(log, batch)
    planned = _offsets(log, log.unfinished[0] if log.unfinished else None)
    names = list((planned or at or Offsets(1, {}, {})).sources)
    return tuple(
        SourceReport(
            name=name,
            kind=_source_kind(log, name, [o.sources.get(name) for o in (at, planned) if o]),
            start=_parsed(before, name),
            end=_parsed(at, name),
            planned=_parsed(planned, name),
        )
        for name in names
    )


def _source_kind(log: QueryLog, name: str, offsets: list[str | None]) -> str:
    is_file = any(log_offset(offset) is not None for offset in offsets)
    return "file" if is_file and log.names(f"sources/{name}") else "other"


def _parsed(offsets: Offsets | None, name: str) -> Any:
    text = offsets.sources.get(name) if offsets else None
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _operators(log: QueryLog, plan: Plan) -> tuple[OperatorReport, ...]:
    return tuple(
        _operator(
            log,
            plan,
            number,
            log.operator(number, plan.batch),
            [store for store in plan.stores if store.operator == number],
        )
        for number in log.operator_ids
    )


def _operator(
    log: QueryLog, plan: Plan, number: int, operator: Operator, versions: list[StoreVersion]
) -> OperatorReport:
    stores = tuple(_store(log, plan, name, versions) for name in operator.stores)
    counted = [s for s in stores if counts_rows(s.name)]
    known = [s.keys for s in counted if s.keys is not None]
    return OperatorReport(
        id=number,
        name=operator.name,
        kind=KINDS.get(operator.name, operator.name),
        backend=plan.backend,
        format=_format(log, plan, number),
        partitions=len({v.partition for v in versions}),
        keys=sum(known) if len(known) == len(counted) else None,
        keys_exact=all(s.keys_exact for s in counted),
        bytes=sum(s.bytes for s in stores),
        stores=stores,
        variables=variables(log, number, operator),
    )


def _store(log: QueryLog, plan: Plan, name: str, versions: list[StoreVersion]) -> StoreReport:
    mine = [v for v in versions if v.store == name]
    folders = tuple(f"{v.folder}/" for v in mine)
    size = sum(
        f.size
        for f in plan.files
        if f.role.is_state and f.path.startswith(folders) and _folder(f.path) in folders
    )
    count = _keys(log, plan, mine)
    return StoreReport(name, count.keys if count else None, count.exact if count else True, size)


def _folder(path: str) -> str:
    folder = path.rpartition("/")[0]
    return folder.removesuffix("/SSTs").removesuffix("/logs") + "/"


def _keys(log: QueryLog, plan: Plan, versions: list[StoreVersion]) -> KeyCount | None:
    try:
        counts = in_parallel(lambda v: count_keys(log, v, plan.backend, plan.codec), versions)
    except QueryLogError:
        return None  # damage is verify's business; inspect shows what it can
    known = [c for c in counts if c is not None]
    return reduce(add, known, KeyCount(0)) if len(known) == len(counts) else None


def _format(log: QueryLog, plan: Plan, number: int) -> str:
    if plan.backend == "hashmap":
        return "1"
    number_of = "2" if log.commit(plan.batch).state_ids(number) is not None else "1"
    has_changelog = any(
        name.endswith(".changelog")
        for store in plan.stores
        if store.operator == number
        for name in log.names(store.folder)
    )
    return f"{number_of} + changelog" if has_changelog else number_of


def variables(log: QueryLog, number: int, operator: Operator) -> tuple[str, ...]:
    """The state variables of a transformWithState operator; others have none."""
    if not operator.name.startswith("transformWithState"):
        return ()
    names: list[str] = []
    for store in operator.stores:
        for path in schema_files(number, store, operator):
            if path in log.files:
                names += [family.name for family in log.schema(path).families]
    return tuple(dict.fromkeys(n for n in names if n != "default" and not n.startswith("$")))
