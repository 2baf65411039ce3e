"""A job as Flink tells of it: overview, details, plan, configuration, result."""

from __future__ import annotations

from typing import Any

from holdfast.server.shapes.numbers import milliseconds, moment
from holdfast.server.shapes.throwables import failure_cause
from holdfast.server.shapes.vertices import state_counts, vertex, vertex_id
from holdfast.server.view import OVER, JobView, RegionView
from holdfast.settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart

JOB_STATES = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
)
_RESULTS = {"FINISHED": "SUCCEEDED", "FAILED": "FAILED", "CANCELED": "CANCELED"}
_STRATEGIES = {
    NoRestart: "none",
    FixedDelay: "fixed-delay",
    FailureRate: "failure-rate",
    ExponentialDelay: "exponential-delay",
}


def job_id(view: JobView) -> dict[str, str]:
    """An entry of ``/jobs``."""
    return {"id": view.id, "status": view.state}


def overview(view: JobView) -> dict[str, Any]:
    """An entry of ``/jobs/overview``."""
    counts = {state.lower(): count for state, count in state_counts(view.regions).items()}
    return {
        "jid": view.id,
        "name": view.name,
        "jobType": "STREAMING",
        "schedulerType": "Default",
        "start-time": milliseconds(view.started),
        "end-time": moment(view.ended),
        "duration": milliseconds(view.duration),
        "state": view.state,
        "last-modification": milliseconds(max(view.entered.values())),
        "tasks": {"total": len(view.regions), **counts},
        "pending-operators": 0,
    }


def details(view: JobView) -> dict[str, Any]:
    """``/jobs/:jid``."""
    return {
        "jid": view.id,
        "application-id": view.id,
        "name": view.name,
        "isStoppable": False,
        "state": view.state,
        "job-type": "STREAMING",
        "schedulerType": "Default",
        "start-time": milliseconds(view.started),
        "end-time": moment(view.ended),
        "duration": milliseconds(view.duration),
        "maxParallelism": -1,
        "now": milliseconds(view.now),
        "timestamps": {s: milliseconds(view.entered.get(s, 0.0)) for s in JOB_STATES},
        "vertices": [vertex(view, region) for region in view.regions],
        "status-counts": state_counts(view.regions),
        "plan": plan(view),
        "pending-operators": 0,
    }


def plan(view: JobView) -> dict[str, Any]:
    """The graph, for drawing."""
    return {
        "jid": view.id,
        "name": view.name,
        "type": "STREAMING",
        "nodes": [_node(view, region) for region in view.regions],
    }


def _node(view: JobView, region: RegionView) -> dict[str, Any]:
    outside = [f"source {uid}" for uid in region.reads if view.region(uid) is None]
    parts = [*outside, f"region {region.uid}", *(f"sink {uid}" for uid in region.sinks)]
    producers = [uid for uid in region.reads if view.region(uid) is not None]
    return {
        "id": vertex_id(region.uid),
        "parallelism": region.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": "<br/>".join(parts),  # uids have no characters that HTML knows
        "optimizer_properties": {},
        "inputs": [_input(at, uid) for at, uid in enumerate(producers)],
    }


def _input(number: int, uid: str) -> dict[str, Any]:
    return {
        "num": number,
        "id": vertex_id(uid),
        "ship_strategy": "REBALANCE",
        "exchange": "pipelined_bounded",
    }


def config(view: JobView) -> dict[str, Any]:
    """``/jobs/:jid/config``; secrets are hidden."""
    return {
        "jid": view.id,
        "name": view.name,
        "execution-config": {
            "restart-strategy": _STRATEGIES[type(view.settings.restart)],
            "job-parallelism": view.settings.parallelism or 1,
            "object-reuse-mode": False,
            "user-config": {each.key: each.value for each in view.settings.describe()},
        },
    }


def execution_result(view: JobView) -> dict[str, Any]:
    """``/jobs/:jid/execution-result``."""
    if view.state not in OVER:
        return {"status": {"id": "IN_PROGRESS"}}
    result: dict[str, Any] = {
        "id": view.id,
        "name": view.name,
        "application-status": _RESULTS.get(view.state, "UNKNOWN"),
        "accumulator-results": {},
        "net-runtime": milliseconds(view.duration),
        "start-time": milliseconds(view.started),
        "end-time": moment(view.ended),
    }
    if view.failure is not None:
        result["failure-cause"] = failure_cause(view.failure.name, view.failure.message)
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}
