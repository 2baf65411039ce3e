"""Statistics of all checkpoints of a job; they survive every process.

One small file per checkpoint, ``<id>.json``; every hundred of them become one block.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter

from holdfast.errors import HoldfastError
from holdfast.protocol.statistics import CheckpointFigures, RegionFigures, Status, from_dict
from holdfast.storage import open_storage
from holdfast.storage.trees import delete_unfinished

_log = logging.getLogger(__name__)
_BLOCK = 100


class History:
    """Checkpoints of all attempts, oldest first. Thread-safe."""

    def __init__(self, location: str) -> None:
        self._storage = open_storage(location)
        self._lock = threading.Lock()
        self._singles: list[str] = []
        self._figures = self._load()

    def _load(self) -> dict[int, CheckpointFigures]:
        found: dict[int, CheckpointFigures] = {}
        for info in self._storage.list():
            if "/" in info.path:  # failures, by themselves
                continue
            for line in self._storage.read(info.path).decode().splitlines():
                figures = from_dict(json.loads(line))
                found[figures.id] = figures
            if not info.path.startswith("block-"):
                self._singles.append(info.path)
        return dict(sorted(found.items()))

    def delete_unfinished(self) -> None:
        """Delete what earlier runners were writing here when they died, about failures too."""
        delete_unfinished(self._storage)

    def begin(self, figures: CheckpointFigures) -> None:
        """A checkpoint was triggered. It is in memory until it ends."""
        with self._lock:
            self._figures[figures.id] = figures

    def acknowledged(self, checkpoint: int, region: RegionFigures) -> None:
        """A region has answered."""
        with self._lock:
            figures = self._figures[checkpoint]
            figures.acknowledged[region.uid] = region
            figures.unaligned = figures.unaligned or region.unaligned

    def completed(self, checkpoint: int, when: float, path: str) -> None:
        """A checkpoint has completed."""
        figures = self.of(checkpoint)
        figures.status, figures.ended, figures.path = Status.COMPLETED, when, path
        self._try_to_keep(checkpoint)

    def failed(self, checkpoint: int, when: float, reason: str, message: str) -> None:
        """A checkpoint has failed."""
        figures = self.of(checkpoint)
        figures.status, figures.ended = Status.FAILED, when
        figures.reason, figures.failure = reason, message
        self._try_to_keep(checkpoint)

    def discarded(self, checkpoint: int) -> None:
        """The files of a completed checkpoint have been deleted."""
        if figures := self.get(checkpoint):
            figures.discarded = True

    def of(self, checkpoint: int) -> CheckpointFigures:
        """A checkpoint that was begun."""
        with self._lock:
            return self._figures[checkpoint]

    def _try_to_keep(self, checkpoint: int) -> None:
        """A checkpoint is what it is, whether its statistics can be written or not."""
        try:
            self._keep(checkpoint)
        except HoldfastError:
            _log.exception("statistics were not written [checkpoint_id=%s]", checkpoint)

    def _keep(self, checkpoint: int) -> None:
        with self._lock:
            figures = self._figures[checkpoint]
            path = f"{checkpoint}.json"
            self._storage.publish(path, _line(figures))
            self._singles.append(path)
            full = self._singles[:_BLOCK] if len(self._singles) >= 2 * _BLOCK else []
            self._singles = self._singles[len(full) :]
        if full:
            self._make_block(full)

    def _make_block(self, paths: list[str]) -> None:
        numbers = [int(path.removesuffix(".json")) for path in paths]
        with self._lock:
            data = b"".join(_line(self._figures[number]) for number in numbers)
        self._storage.publish(f"block-{min(numbers)}-{max(numbers)}.jsonl", data)
        for path in paths:
            self._storage.delete(path)

    def all(self) -> list[CheckpointFigures]:
        """Every checkpoint, oldest first."""
        with self._lock:
            return [self._figures[number] for number in sorted(self._figures)]

    def get(self, checkpoint: int) -> CheckpointFigures | None:
        """One checkpoint."""
        with self._lock:
            return self._figures.get(checkpoint)

    def counts(self) -> Counter[str]:
        """How many checkpoints have which status."""
        with self._lock:
            return Counter(figures.status.value for figures in self._figures.values())

    def latest(self, status: Status) -> CheckpointFigures | None:
        """The newest checkpoint with that status."""
        return next((f for f in reversed(self.all()) if f.status is status), None)


def _line(figures: CheckpointFigures) -> bytes:
    return (json.dumps(figures.to_dict()) + "\n").encode()
