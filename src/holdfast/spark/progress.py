"""Hearing of every batch that a session's queries finish, and of their end."""
# ruff: noqa: N802 (some names are Spark's)

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

OnBatch = Callable[[str, int, dict[str, Any]], None]
"""Called with run id, batch id and Spark's progress report."""

OnEnd = Callable[[str, str | None], None]
"""Called with run id and, if the query failed, the error's text."""

_log = logging.getLogger(__name__)


class BatchListener:
    """Calls back for all queries of one session; queries of ``newSession()`` are not heard.

    1. Calls come one at a time, from a thread of Spark's, in the order of batches per query.
    2. ``on_end`` is the last call for a run.
    3. A batch is in the commit log before ``on_batch`` is called for it. The reverse does not
       hold: a process that dies in between has committed batches that nobody heard of.
    4. All queries of the session wait in the same queue: a slow callback delays the others'.
    5. An exception in a callback is logged; the next call comes all the same.
    """

    def __init__(self, spark: SparkSession, on_batch: OnBatch, on_end: OnEnd) -> None:
        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)
        self._events = _Events(on_batch, on_end)
        self._queries: Any = spark.streams._jsqm
        streaming = gateway.jvm.org.apache.spark.sql.streaming
        self._listener: Any = streaming.PythonStreamingQueryListenerWrapper(self._events)
        self._queries.addListener(self._listener)

    def close(self) -> None:
        """Hear no more; a call that is under way may still end after this returns."""
        if self._events.heard:
            self._events.heard = False
            self._queries.removeListener(self._listener)


class _Events:
    """Spark's interface for listeners, answered by Python.

    pyspark's own reads each report field by field, each a call into the JVM, before it hands it
    on. Here two calls bring all of it as JSON.
    """

    def __init__(self, on_batch: OnBatch, on_end: OnEnd) -> None:
        self.heard = True
        self._on_batch = on_batch
        self._on_end = on_end

    def onQueryStarted(self, event: Any) -> None:
        """Nobody asked."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch has ended."""
        report = json.loads(event.progress().json())
        self._call(self._on_batch, report["runId"], report["batchId"], report)

    def onQueryIdle(self, event: Any) -> None:
        """Nobody asked."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query has ended."""
        error = event.exception()
        text = error.get() if error.isDefined() else None
        self._call(self._on_end, event.runId().toString(), text)

    def _call(self, callback: Callable[..., None], run_id: str, *values: Any) -> None:
        if not self.heard:
            return
        try:
            callback(run_id, *values)
        except Exception:
            _log.exception("a callback of the batch listener failed [run_id=%s]", run_id)

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
