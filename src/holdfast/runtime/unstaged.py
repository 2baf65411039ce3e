"""Transactions of batches whose rows were not staged, until a checkpoint owns them.

When every batch is its own checkpoint, the rows of a batch go to the sink at once. They are then
nowhere else, so the handle must outlive the process, from before Spark records the batch as
committed until a checkpoint has it. ``unstaged/<sink>/<batch>`` holds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.errors import DamagedFile
from holdfast.storage import Storage

_FOLDER = "unstaged"


class Unstaged:
    """The handles of one sink."""

    def __init__(self, storage: Storage, sink: str) -> None:
        self._storage = storage
        self._folder = f"{_FOLDER}/{sink}"

    def record(self, batch: int, handle: Mapping[str, Any]) -> None:
        """Before Spark commits the batch. One of an earlier try is replaced."""
        self._storage.delete(self._path(batch))
        self._storage.publish(self._path(batch), json.dumps(dict(handle)).encode())

    def recover(self, covered: int, committed: int) -> tuple[int, Mapping[str, Any]] | None:
        """The one that no checkpoint covers and whose batch Spark has committed; others go."""
        found = self.find(covered, committed)
        for batch in self._batches():
            if found is None or batch != found[0]:
                self._storage.delete(self._path(batch))
        return found

    def find(self, covered: int, committed: int) -> tuple[int, Mapping[str, Any]] | None:
        """The same; nothing is changed."""
        wanted = [batch for batch in self._batches() if covered < batch <= committed]
        if not wanted:
            return None
        return wanted[-1], self._read(self._path(wanted[-1]))

    def _read(self, path: str) -> Mapping[str, Any]:
        try:
            handle: Mapping[str, Any] = json.loads(self._storage.read(path))
            handle["checkpoint"]
        except (ValueError, TypeError, KeyError) as cause:
            raise DamagedFile(
                "the handle of a batch that was not staged is truncated or altered",
                path=self._storage.locate(path),
            ) from cause
        return handle

    def forget(self, batch: int) -> None:
        """The transaction is committed."""
        self._storage.delete(self._path(batch))

    def _batches(self) -> list[int]:
        listed = self._storage.list(self._folder)
        return sorted(int(info.path.rpartition("/")[2]) for info in listed)

    def _path(self, batch: int) -> str:
        return f"{self._folder}/{batch}"
