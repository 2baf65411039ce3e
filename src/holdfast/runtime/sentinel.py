"""Looks, every moment, for what no event tells: a JVM that is gone, a runner that was replaced."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from holdfast.errors import HoldfastError
from holdfast.runtime.fencing import Fence, Fenced
from holdfast.spark.jvm_process import jvm_is_gone

_log = logging.getLogger(__name__)
_GLANCE = 0.5
_BETWEEN_FENCE_CHECKS = 5.0


class JvmLost(HoldfastError):
    """Spark's JVM is gone, and with it every query. Only a new process can go on."""

    code = "JVM_LOST"
    retryable = True


class Sentinel:
    """A thread that looks; it calls ``on_loss`` once, with what it found."""

    def __init__(self, fence: Fence, on_loss: Callable[[HoldfastError], None]) -> None:
        self._fence = fence
        self._on_loss = on_loss
        self._over = threading.Event()
        self._next_check = time.monotonic() + _BETWEEN_FENCE_CHECKS

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="sentinel", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(_GLANCE):
            loss = self._look()
            if loss is not None and not self._over.is_set():
                self._on_loss(loss)
                return

    def _look(self) -> HoldfastError | None:
        if jvm_is_gone():
            return JvmLost(
                "Spark's JVM has ended",
                hint="Out of memory? Killed? See what it wrote to stderr, and the system's log.",
            )
        if time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + _BETWEEN_FENCE_CHECKS
            return self._look_at_fence()
        return None

    def _look_at_fence(self) -> HoldfastError | None:
        try:
            self._fence.check()
        except Fenced as error:
            return error
        except HoldfastError:  # whoever needs the storage will tell
            _log.warning("the epoch of the job could not be read", exc_info=True)
        return None
