"""What is done for each request. Whatever is looked at, is looked at once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from holdfast.protocol.statistics import CheckpointFigures
from holdfast.server import requests
from holdfast.server.operations import Operations
from holdfast.server.problems import Json, RequestRefused
from holdfast.server.shapes import checkpoints, cluster, details, jobs, own, vertices
from holdfast.server.shapes.exceptions import exceptions
from holdfast.server.view import OVER, JobAccess, JobView, RegionView

Document = dict[str, Any]
_EXCEPTIONS_SHOWN = 20
_CHECKPOINTS_SHOWN = 10
_FAILURES_SHOWN = 20
_COMMIT_PATIENCE = 20.0
"""Shorter than clients wait for an answer."""


class Handlers:
    """Answers for some jobs, by their ids."""

    def __init__(self, jobs_by_id: Mapping[str, JobAccess], operations: Operations) -> None:
        self._jobs = jobs_by_id
        self._operations = operations
        self.cancelled = threading.Event()
        """Somebody has asked a job to end …"""
        self.end_told = threading.Event()
        """… and has been told that it has."""

    # All jobs

    def list_jobs(self, _: Request) -> Document:
        """``/jobs``."""
        return {"jobs": [jobs.job_id(job.view()) for job in self._jobs.values()]}

    def overview_jobs(self, _: Request) -> Document:
        """``/jobs/overview``."""
        return {"jobs": [jobs.overview(job.view()) for job in self._jobs.values()]}

    def overview(self, _: Request) -> Document:
        """``/overview``."""
        return cluster.overview([job.view() for job in self._jobs.values()])

    def config(self, _: Request) -> Document:
        """``/config``."""
        return cluster.config()

    # One job

    def _access(self, request: Request) -> JobAccess:
        job = requests.path_id(request, "jid")
        if job not in self._jobs:
            raise RequestRefused(404, f"Job {job} not found")
        return self._jobs[job]

    def _view(self, request: Request) -> JobView:
        return self._access(request).view()

    def job(self, request: Request) -> Document:
        """``/jobs/:jid``."""
        return jobs.details(self._view(request))

    def status(self, request: Request) -> Document:
        """``/jobs/:jid/status``; Flink answers 500 for an unknown job here, and clients know."""
        if requests.path_id(request, "jid") not in self._jobs:
            raise RequestRefused(500, f"Job {request.path_params['jid']} not found")
        view = self._view(request)
        if view.state in OVER:
            self.end_told.set()
        return {"status": view.state}

    def plan(self, request: Request) -> Document:
        """``/jobs/:jid/plan``."""
        return {"plan": jobs.plan(self._view(request))}

    def job_config(self, request: Request) -> Document:
        """``/jobs/:jid/config``."""
        return jobs.config(self._view(request))

    def execution_result(self, request: Request) -> Document:
        """``/jobs/:jid/execution-result``."""
        return jobs.execution_result(self._view(request))

    def exceptions(self, request: Request) -> Document:
        """``/jobs/:jid/exceptions``."""
        most = requests.query_number(request, "maxExceptions", _EXCEPTIONS_SHOWN)
        return exceptions(self._view(request), most, _labels(request))

    def vertex(self, request: Request) -> Document:
        """``/jobs/:jid/vertices/:vid``."""
        view = self._view(request)
        return vertices.vertex_details(view, _region(view, request))

    def own_job(self, request: Request) -> Document:
        """``/jobs/:jid/holdfast``."""
        return own.job(self._view(request))

    def own_checkpoints(self, request: Request) -> Document:
        """``/jobs/:jid/holdfast/checkpoints``."""
        last = requests.query_number(request, "last", _CHECKPOINTS_SHOWN)
        return own.checkpoints(self._view(request), last)

    def own_failures(self, request: Request) -> Document:
        """``/jobs/:jid/holdfast/failures``."""
        last = requests.query_number(request, "last", _FAILURES_SHOWN)
        return own.failures(self._view(request), last)

    def transactions(self, request: Request) -> Document:
        """``/jobs/:jid/holdfast/transactions``."""
        access = self._access(request)
        return own.transactions(access.view(), access.transactions())

    async def commit_transactions(self, request: Request) -> Json:
        """``POST /jobs/:jid/holdfast/transactions/commit``; the body may name a ``sink``.

        Answers when every sink that waits has tried, or after a while: then it goes on trying.
        """
        sink = (await requests.body(request)).get("sink")
        return Json(await run_in_threadpool(self._commit_now, request, sink))

    def _commit_now(self, request: Request, sink: Any) -> Document:
        access = self._access(request)
        view = access.view()
        if view.state != "RUNNING":
            raise RequestRefused(409, f"Job {view.id} commits nothing now: it is {view.state}.")
        known = [each.uid for each in view.sinks]
        if sink is not None and sink not in known:
            there = ", ".join(known) or "none"
            text = f"Sink {sink} not found. Sinks that commit with checkpoints: {there}."
            raise RequestRefused(404, text)
        return own.tries(access.commit_now(sink, _COMMIT_PATIENCE))

    # Checkpoints

    def checkpoints(self, request: Request) -> Document:
        """``/jobs/:jid/checkpoints``."""
        return checkpoints.statistics(self._view(request))

    def checkpoints_config(self, request: Request) -> Document:
        """``/jobs/:jid/checkpoints/config``."""
        return checkpoints.config(self._view(request).settings)

    def checkpoint_details(self, request: Request) -> Document:
        """``/jobs/:jid/checkpoints/details/:cid``."""
        view = self._view(request)
        return details.checkpoint_details(view, _checkpoint(view, request))

    def checkpoint_subtasks(self, request: Request) -> Document:
        """``/jobs/:jid/checkpoints/details/:cid/subtasks/:vid``."""
        view = self._view(request)
        region = _region(view, request)
        return details.subtask_details(_checkpoint(view, request), region.uid)

    async def trigger_checkpoint(self, request: Request) -> Json:
        """``POST /jobs/:jid/checkpoints``; an unknown job is told of when the result is asked."""
        job = requests.path_id(request, "jid")
        fields = await requests.body(request)
        full, name = requests.checkpoint_is_full(fields), requests.trigger_id(fields)

        def start() -> Future[int]:
            access = self._access(request)
            if (state := access.view().state) != "RUNNING":
                raise RequestRefused(409, f"Job {job} takes no checkpoints: it is {state}.")
            return access.checkpoint(full)

        begun = await run_in_threadpool(self._operations.begin, job, name, start)
        return Json({"request-id": begun}, status_code=202)

    def checkpoint_operation(self, request: Request) -> Document:
        """``/jobs/:jid/checkpoints/:rid``."""
        rid = requests.path_id(request, "rid")
        return self._operations.look(requests.path_id(request, "jid"), rid)

    # The end

    def patch_job(self, request: Request) -> Json:
        """``PATCH /jobs/:jid?mode=cancel``."""
        match request.query_params.get("mode", "cancel"):
            case "cancel":
                return self.cancel(request)
            case "stop":
                raise RequestRefused(308, "mode=stop is not there: use /jobs/:jid/stop.")
        raise RequestRefused(400, "mode must be cancel.")

    def cancel(self, request: Request) -> Json:
        """Also ``GET /jobs/:jid/yarn-cancel``, which Flink's dashboard calls."""
        access = self._access(request)
        state = access.view().state
        if state == "CREATED":
            raise RequestRefused(503, "The job is starting.")
        if state in OVER and state != "CANCELED":
            raise RequestRefused(409, f"The job is over already: {state}.")
        self.cancelled.set()
        access.cancel()
        return Json({}, status_code=202)


def _region(view: JobView, request: Request) -> RegionView:
    vertex = requests.path_id(request, "vid")
    region = vertices.find_region(view, vertex)
    if region is None:
        raise RequestRefused(404, f"Vertex {vertex} not found")
    return region


def _labels(request: Request) -> dict[str, str]:
    """``failureLabelFilter=class:Recoverable,scope:all``."""
    found = {}
    for each in ",".join(request.query_params.getlist("failureLabelFilter")).split(","):
        name, colon, value = each.partition(":")
        if each and not (name and colon and value):
            raise RequestRefused(400, "failureLabelFilter must be name:value,name:value.")
        if each:
            found[name] = value
    return found


def _checkpoint(view: JobView, request: Request) -> CheckpointFigures:
    number = requests.path_number(request, "cid")
    found = next((c for c in reversed(view.checkpoints) if c.id == number), None)
    if found is None:
        raise RequestRefused(404, f"Could not find checkpoint statistics for checkpoint {number}.")
    return found
