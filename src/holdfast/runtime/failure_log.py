"""The newest failures of a job, oldest first; they survive every process.

``failures/<n>.json`` below the job's history is written when a failure has been decided upon, and
``failures/<n>.recovered.json`` when everything ran again.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace

from holdfast.errors import HoldfastError
from holdfast.protocol.records import FailureRecord, record_from
from holdfast.storage import open_storage

_log = logging.getLogger(__name__)
FOLDER = "failures"
_RECOVERED = ".recovered"
LONGEST = 500
"""Failures that are kept. Their numbers go on, so the newest tells how many there have been."""


class FailureLog:
    """The failures of all runs. Thread-safe."""

    def __init__(self, history: str, longest: int = LONGEST) -> None:
        self._storage = open_storage(f"{history}/{FOLDER}")
        self._longest = longest
        self._lock = threading.Lock()
        self._records = self._load()

    def _load(self) -> dict[int, FailureRecord]:
        found: dict[int, FailureRecord] = {}
        recovered: dict[int, float] = {}
        for info in self._storage.list():
            try:
                item = json.loads(self._storage.read(info.path))
                name = info.path.removesuffix(".json")
                if name.endswith(_RECOVERED):
                    recovered[int(name.removesuffix(_RECOVERED))] = float(item["recovered"])
                else:
                    found[int(name)] = record_from(item)
            except (ValueError, TypeError, KeyError):  # no reason not to start a job
                _log.warning("a failure cannot be read: %s", self._storage.locate(info.path))
        for number, at in recovered.items():
            if number in found:
                found[number] = replace(found[number], recovered=at)
        return found

    def next_number(self) -> int:
        """For the next failure."""
        with self._lock:
            return max(self._records, default=0) + 1

    def add(self, record: FailureRecord) -> None:
        """A failure has been decided upon."""
        with self._lock:
            self._records[record.number] = record
        self._write(f"{record.number}.json", record.to_dict())
        self._forget()

    def _forget(self) -> None:
        with self._lock:
            old = sorted(self._records)[: -self._longest]
            for number in old:
                del self._records[number]
        try:
            for number in old:
                self._storage.delete(f"{number}.json")
                self._storage.delete(f"{number}{_RECOVERED}.json")
        except HoldfastError:  # a later runner reads them, and tries again
            _log.exception("old failures were not deleted")

    def recovered(self, number: int, at: float) -> None:
        """Everything runs again."""
        with self._lock:
            if number not in self._records:
                return  # so many have come since
            self._records[number] = replace(self._records[number], recovered=at)
        self._write(f"{number}{_RECOVERED}.json", {"recovered": at})

    def _write(self, path: str, item: dict[str, object]) -> None:
        """Recovery goes on, whether it can be written about or not."""
        try:
            self._storage.publish(path, json.dumps(item).encode())
        except HoldfastError:
            _log.exception("a failure was not written to the history: %s", item)

    def all(self) -> list[FailureRecord]:
        """Every failure that is kept."""
        with self._lock:
            return [self._records[number] for number in sorted(self._records)]
