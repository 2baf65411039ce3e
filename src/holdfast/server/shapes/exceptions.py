"""Failures as Flink tells of them: a history of root causes, each with those that came with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.protocol.records import FailureRecord
from holdfast.server.shapes.numbers import milliseconds
from holdfast.server.view import Failure, JobView

Labels = Mapping[str, str]


def exceptions(view: JobView, most: int, wanted: Labels | None = None) -> dict[str, Any]:
    """``/jobs/:jid/exceptions``, newest first; all labels that are wanted must be there."""
    kept = _entries(view)[: view.settings.exception_history_size]
    chosen = [each for each in kept if (wanted or {}).items() <= each["failureLabels"].items()]
    return {"exceptionHistory": {"entries": chosen[:most], "truncated": len(chosen) > most}}


def _entries(view: JobView) -> list[dict[str, Any]]:
    known = {each.number for each in view.failures}
    roots = [each for each in view.failures if each.merged_into not in known]
    entries = [_root(root, view.failures) for root in reversed(roots)]
    if view.failure is not None and not _is_on_record(view):
        entries.insert(0, {**_unrecorded(view.failure), "concurrentExceptions": []})
    return entries


def _is_on_record(view: JobView) -> bool:
    """What ended the job has no restart; what did not come through failover is on no record."""
    return any(decision(each) == "fail" for each in view.failures_of_run())


def _root(root: FailureRecord, failures: tuple[FailureRecord, ...]) -> dict[str, Any]:
    others = [_exception(each) for each in failures if each.merged_into == root.number]
    return {**_exception(root), "concurrentExceptions": others}


def _exception(failure: FailureRecord) -> dict[str, Any]:
    return {
        "exceptionName": failure.error,
        "stacktrace": failure.message,
        "timestamp": milliseconds(failure.at),
        "failureLabels": labels(failure),
        **_task(failure.region),
    }


def _unrecorded(failure: Failure) -> dict[str, Any]:
    return {
        "exceptionName": failure.name,
        "stacktrace": failure.message,
        "timestamp": milliseconds(failure.at),
        "failureLabels": {},
        **_task(failure.region),
    }


def _task(region: str | None) -> dict[str, str]:
    return {} if region is None else {"taskName": region}


def labels(failure: FailureRecord) -> dict[str, str]:
    """One word each, so that they can be filtered by."""
    found = {"class": failure.kind, "scope": failure.scope, "decision": decision(failure)}
    return {name: value for name, value in found.items() if value is not None}


def decision(failure: FailureRecord) -> str:
    """What was done about it, in one word."""
    if failure.merged_into is not None:
        return "join"
    return "fail" if failure.delay is None else "restart"
