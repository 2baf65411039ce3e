"""A thread that makes one call after the other, for functions that may take their time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Orderly:
    """Calls in the order in which they were given. A daemon: one that hangs holds up no exit."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """From now on calls are made."""
        self._thread.start()

    def put(self, call: Callable[[], None]) -> None:
        """Call it when those before have returned; it must not raise."""
        self._calls.put(call)

    def close(self) -> None:
        """End when everything has been called; nobody waits for that."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
