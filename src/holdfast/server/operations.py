"""Requests that take long: they get an id at once, and whoever asked comes back with it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.server.problems import RequestRefused
from holdfast.server.shapes.throwables import failure_cause

KEPT_SECONDS = 300.0
"""How long a result can be asked for."""


@dataclass(slots=True)
class _Operation:
    future: Future[int]
    ended: float | None = None


class Operations:
    """Checkpoints that somebody has asked for, by job and request id. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._operations: dict[tuple[str, str], _Operation] = {}

    def begin(self, job: str, request: str | None, start: Callable[[], Future[int]]) -> str:
        """Start something, or find that this request has started it already."""
        name = request or uuid.uuid4().hex
        with self._lock:
            self._forget_old()
            if (job, name) not in self._operations:
                operation = _Operation(_started(start))
                operation.future.add_done_callback(lambda _: self._note_end(operation))
                self._operations[job, name] = operation
        return name

    def _note_end(self, operation: _Operation) -> None:
        operation.ended = self._clock()

    def _forget_old(self) -> None:
        limit = self._clock() - KEPT_SECONDS
        old = [k for k, o in self._operations.items() if o.ended is not None and o.ended < limit]
        for key in old:
            del self._operations[key]

    def look(self, job: str, request: str) -> dict[str, Any]:
        """How far it has come, in Flink's shape."""
        with self._lock:
            self._forget_old()
            operation = self._operations.get((job, request))
        if operation is None:
            text = f"There is no checkpoint operation with triggerId={request} for job {job}."
            raise RequestRefused(404, text)
        if not operation.future.done():
            return {"status": {"id": "IN_PROGRESS"}, "operation": None}
        return {"status": {"id": "COMPLETED"}, "operation": _result(operation.future)}


def _started(start: Callable[[], Future[int]]) -> Future[int]:
    try:
        return start()
    except (HoldfastError, RequestRefused) as error:  # told when it is asked for, as Flink does
        failed: Future[int] = Future()
        failed.set_exception(error)
        return failed


def _result(future: Future[int]) -> dict[str, Any]:
    error = future.exception()
    if error is None:
        return {"checkpointId": future.result()}
    return {"failureCause": failure_cause(type(error).__name__, str(error))}
