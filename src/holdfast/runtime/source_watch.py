"""Asks now and then whether sources are still what they were when their queries began.

Spark notices that a topic was replaced only if the new one is shorter than what was read of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast.errors import HoldfastError

_log = logging.getLogger(__name__)
BETWEEN_LOOKS = 10.0


class Watched(Protocol):
    """A region, as far as it is watched."""

    uid: str
    halted: bool
    finished: bool

    def check_sources(self) -> None:
        """Raises if one of its sources is not what it was."""
        ...


class SourceWatch:
    """A thread of its own, for whoever is asked may take long to answer."""

    def __init__(
        self,
        regions: Iterable[Watched],
        on_loss: Callable[[HoldfastError, str], None],
        seconds: float = BETWEEN_LOOKS,
    ) -> None:
        self._regions = list(regions)
        self._on_loss = on_loss
        self._seconds = seconds
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._run, name="source-watch", daemon=True).start()

    def close(self) -> None:
        """Look no more; a look that is under way tells nobody."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            for region in self._regions:
                if _still_reads(region):
                    self._look_at(region)

    def _look_at(self, region: Watched) -> None:
        try:
            region.check_sources()
        except HoldfastError as error:
            if not self._over.is_set() and _still_reads(region):
                self._on_loss(error, region.uid)
        except Exception:  # whoever reads there will tell
            _log.debug("the sources of %s could not be looked at", region.uid, exc_info=True)


def _still_reads(region: Watched) -> bool:
    """Who has read everything does not mind what becomes of it."""
    return not region.halted and not region.finished
