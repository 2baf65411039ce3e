"""Telling whoever waits how far long work has come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Progress = Callable[[int, int], None]
"""Called with the bytes that are done and the bytes in all."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_THREADS = 4


class Meter:
    """Adds up bytes from several threads."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._done = 0
        self._progress = progress
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """``size`` more bytes are done."""
        with self._lock:
            self._done += size
            if self._progress is not None:
                self._progress(self._done, self._total)


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Work on several items at once; the first failure ends it, and nothing runs on behind it."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-files") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
