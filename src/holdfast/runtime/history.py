"""Statistics of a job's checkpoints; they survive every process.

One small file per checkpoint, ``<id>.json``; every hundred of them become one block,
``block-<first>-<last>.jsonl``. The newest ten thousand are kept, and always the newest that
completed: it is the proof that sinks hold rows of the job.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator

from holdfast.errors import HoldfastError
from holdfast.protocol.statistics import CheckpointFigures, RegionFigures, Status, from_dict
from holdfast.storage import open_storage
from holdfast.storage.trees import delete_unfinished

_log = logging.getLogger(__name__)
_BLOCK = 100
LONGEST = 10_000
_NAME = re.compile(r"(\d+)\.json|block-(\d+)-(\d+)\.jsonl")


class History:
    """Checkpoints of all attempts, oldest first. Thread-safe."""

    def __init__(self, location: str, longest: int = LONGEST) -> None:
        self._storage = open_storage(location)
        self._longest = longest
        self._lock = threading.Lock()
        self._singles: list[str] = []
        self._doubled: list[str] = []
        """Files that have become part of a block just before a runner died."""
        self._blocks: dict[str, range] = {}
        self._figures = self._load()

    def _load(self) -> dict[int, CheckpointFigures]:
        singles: dict[int, CheckpointFigures] = {}
        blocks: dict[int, CheckpointFigures] = {}
        for info in self._storage.list():
            if (name := _NAME.fullmatch(info.path)) is None:  # failures, by themselves
                continue
            readable = {figures.id: figures for figures in self._read(info.path)}
            if name[1] is None:
                blocks |= readable
                self._blocks[info.path] = range(int(name[2]), int(name[3]) + 1)
            else:
                singles |= readable
        self._singles = [f"{number}.json" for number in sorted(singles.keys() - blocks.keys())]
        self._doubled = [f"{number}.json" for number in singles.keys() & blocks.keys()]
        return dict(sorted((singles | blocks).items()))

    def _read(self, path: str) -> Iterator[CheckpointFigures]:
        """What can be read of a file: statistics are no reason not to start a job."""
        for line in self._storage.read(path).splitlines():
            try:
                yield from_dict(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError):
                _log.warning("statistics cannot be read: %s", self._storage.locate(path))

    def delete_unfinished(self) -> None:
        """Delete what earlier runners were writing here when they died, about failures too."""
        delete_unfinished(self._storage)
        for path in self._doubled:
            self._storage.delete(path)

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
        numbers = [_number(path) for path in paths]
        block = range(min(numbers), max(numbers) + 1)
        name = f"block-{block[0]}-{block[-1]}.jsonl"
        with self._lock:
            data = b"".join(_line(self._figures[number]) for number in numbers)
        self._storage.publish(name, data)
        for path in paths:
            self._storage.delete(path)
        self._blocks[name] = block
        self._forget()

    def _forget(self) -> None:
        """Delete the oldest blocks."""
        latest = self.latest(Status.COMPLETED)
        with self._lock:
            kept = list(self._figures)[-self._longest :]
        for name, block in list(self._blocks.items()):
            if block[-1] >= kept[0] or (latest is not None and latest.id in block):
                continue
            self._storage.delete(name)
            del self._blocks[name]
            with self._lock:
                for number in block:
                    self._figures.pop(number, None)

    def all(self) -> list[CheckpointFigures]:
        """Every checkpoint that is remembered, oldest first: ids only ever grow."""
        with self._lock:
            return list(self._figures.values())

    def get(self, checkpoint: int) -> CheckpointFigures | None:
        """One checkpoint."""
        with self._lock:
            return self._figures.get(checkpoint)

    def counts(self) -> Counter[str]:
        """How many of those that are remembered have which status."""
        with self._lock:
            return Counter(figures.status.value for figures in self._figures.values())

    def latest(self, status: Status) -> CheckpointFigures | None:
        """The newest checkpoint with that status."""
        return next((f for f in reversed(self.all()) if f.status is status), None)


def _number(path: str) -> int:
    return int(path.removesuffix(".json"))


def _line(figures: CheckpointFigures) -> bytes:
    return (json.dumps(figures.to_dict()) + "\n").encode()
