"""Which transactions of a sink are settled: nothing is left to be done about them.

``settled/<sink>/<checkpoint>`` in an attempt. It is written when a transaction is committed, and
before the staged rows go that committing it again would need. So nobody ever has to conclude from
rows that are not there that they have been written.
"""

from __future__ import annotations

from holdfast.storage import Storage, Tree

_FOLDER = "settled"


class Settlements:
    """Those of one sink. It has one open transaction at a time, so the newest tells of all."""

    def __init__(self, attempt: Storage, sink: str) -> None:
        self._storage = attempt
        self._folder = f"{_FOLDER}/{sink}"
        self._old: list[str] | None = None

    def record(self, checkpoint: int) -> None:
        """The transaction that this checkpoint promised is committed."""
        path = f"{self._folder}/{checkpoint}"
        if self._old is None:
            self._old = [info.path for info in self._storage.list(self._folder)]
        self._storage.publish(path, b"")
        for old in self._old:
            if old != path:
                self._storage.delete(old)
        self._old = [path]

    def has(self, checkpoint: int) -> bool:
        """Whether nothing is left to do about what this checkpoint promised."""
        return any(_number(info.path) >= checkpoint for info in self._storage.list(self._folder))


def carry_over(old: Storage, tree: Tree) -> None:
    """A new attempt of the same job knows them too: ids of checkpoints are given out once."""
    for info in old.list(_FOLDER):
        tree.write(info.path, b"")


def _number(path: str) -> int:
    return int(path.rpartition("/")[2])
