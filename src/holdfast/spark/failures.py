"""Why something failed: the chain of causes through Python and the JVM, outermost first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql.streaming import StreamingQuery

from holdfast.errors import Cause, HoldfastError

_DEEPEST = 20


def causes_of_query(query: StreamingQuery) -> tuple[Cause, ...]:
    """Of a query that has failed; empty if it has not, or if nobody can tell any more."""
    with suppress(Exception):  # the JVM may be what failed
        found: Any = query._jsq.exception()
        if found.isDefined():
            return tuple(_of_java(found.get()))
    return ()


def causes_of(error: BaseException) -> tuple[Cause, ...]:
    """Of an exception in Python, and of what it came from in Java."""
    return tuple(_of_python(error))


def _of_python(error: BaseException) -> Iterator[Cause]:
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen and len(seen) < _DEEPEST:
        seen.append(current)
        if (java := _java_behind(current)) is not None:
            yield from _of_java(java)
        else:
            yield _plain(current)
        current = current.__cause__


def _java_behind(error: BaseException) -> Any:
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def _plain(error: BaseException) -> Cause:
    kind = type(error)
    if isinstance(error, HoldfastError):
        return Cause(f"holdfast.{kind.__name__}", error.message, error.code)
    return Cause(f"{kind.__module__}.{kind.__qualname__}", str(error))


def _of_java(error: Any) -> Iterator[Cause]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        yield Cause(
            str(error.getClass().getName()),
            str(error.getMessage() or ""),
            _asked(error, "getCondition"),
            _asked(error, "getSqlState"),
        )
        error = error.getCause()


def _asked(error: Any, method: str) -> str | None:
    """Only Spark's own exceptions have conditions."""
    try:
        answer = getattr(error, method)()
    except Exception:
        return None
    return None if answer is None else str(answer)
