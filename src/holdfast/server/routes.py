"""The web application: which path leads to which handler, and what failures look like."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from holdfast.errors import HoldfastError
from holdfast.server.guard import Guard
from holdfast.server.handlers import Handlers
from holdfast.server.problems import Json, RequestRefused, errors

_log = logging.getLogger(__name__)


def application(handlers: Handlers, token: str) -> ASGIApp:
    """Every route at ``/`` and, as Flink's client asks for it, at ``/v1``."""
    found = routes(handlers)
    app = Starlette(
        routes=[Mount("/v1", routes=found), *found],
        exception_handlers={HTTPException: _not_found, RequestRefused: _refused},
    )
    # A path with a slash too many is unknown, and not somewhere else.
    app.router.redirect_slashes = False
    return Guard(app, token)


def routes(h: Handlers) -> list[Route]:
    """Fixed names before parameters: the first that fits is taken."""
    job, checkpoints = "/jobs/{jid}", "/jobs/{jid}/checkpoints"
    return [
        _get("/jobs", h.list_jobs),
        _get("/jobs/overview", h.overview_jobs),
        _get("/overview", h.overview),
        _get("/config", h.config),
        _get(job, h.job),
        _route("PATCH", job, h.patch_job),
        _get(f"{job}/status", h.status),
        _get(f"{job}/plan", h.plan),
        _get(f"{job}/config", h.job_config),
        _get(f"{job}/execution-result", h.execution_result),
        _get(f"{job}/exceptions", h.exceptions),
        _get(f"{job}/yarn-cancel", h.cancel),
        _get(f"{job}/vertices/{{vid}}", h.vertex),
        _get(f"{job}/holdfast", h.own_job),
        _get(f"{job}/holdfast/checkpoints", h.own_checkpoints),
        _get(f"{job}/holdfast/failures", h.own_failures),
        _get(f"{job}/holdfast/transactions", h.transactions),
        _route("POST", f"{job}/holdfast/transactions/commit", h.commit_transactions),
        _get(checkpoints, h.checkpoints),
        _route("POST", checkpoints, h.trigger_checkpoint),
        _get(f"{checkpoints}/config", h.checkpoints_config),
        _get(f"{checkpoints}/details/{{cid}}", h.checkpoint_details),
        _get(f"{checkpoints}/details/{{cid}}/subtasks/{{vid}}", h.checkpoint_subtasks),
        _get(f"{checkpoints}/{{rid}}", h.checkpoint_operation),
    ]


def _get(path: str, handler: Callable[[Request], Any]) -> Route:
    return _route("GET", path, handler)


def _route(method: str, path: str, handler: Callable[[Request], Any]) -> Route:
    return Route(path, _answering(handler), methods=[method])


def _answering(handler: Callable[[Request], Any]) -> Callable[[Request], Any]:
    @functools.wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            if inspect.iscoroutinefunction(handler):
                found = await handler(request)
            else:
                found = await run_in_threadpool(handler, request)
        except (RequestRefused, HTTPException):
            raise
        except HoldfastError as error:
            return errors(500, str(error))
        except Exception:
            _log.exception("a request failed [path=%s]", request.url.path)
            return errors(500, "Internal server error.")
        return found if isinstance(found, Response) else Json(found)

    return answer


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    return errors(error.status, error.text)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code not in (404, 405):
        return errors(error.status_code, error.detail)
    if request.method in ("GET", "HEAD"):
        return errors(404, f"Unable to load requested file {path}.")
    return errors(404, f"Not found: {path}")
