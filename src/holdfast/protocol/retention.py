"""Which checkpoints and which shared files may go."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


def subsumed(completed: Iterable[int], damaged: Iterable[int], retained: int) -> list[int]:
    """All but the newest ``retained`` checkpoints, oldest first.

    One that cannot be read is kept until there are so many newer ones that can.
    """
    good = sorted(completed)
    if len(good) < retained:
        return []
    kept = good[-retained:]
    return sorted(number for number in {*good, *damaged} if number < kept[0])


class SharedFiles:
    """Which checkpoint uses which shared file.

    A file is *held* from the moment a checkpoint in flight means to use it, so that the end of an
    older one cannot take it away. It may be deleted when nobody holds it.
    """

    def __init__(self, held: Mapping[int, Collection[str]] | None = None) -> None:
        self._held: dict[int, set[str]] = {n: set(files) for n, files in (held or {}).items()}

    def hold(self, checkpoint: int, files: Iterable[str]) -> None:
        """The checkpoint uses these files."""
        self._held.setdefault(checkpoint, set()).update(files)

    def release(self, checkpoint: int) -> set[str]:
        """The checkpoint is gone: these files nobody uses any more."""
        files = self._held.pop(checkpoint, set())
        return files - self.used

    @property
    def used(self) -> set[str]:
        """Files that somebody holds."""
        return set().union(*self._held.values())

    def orphans(self, found: Iterable[str]) -> set[str]:
        """Of the files that were found, those nobody holds: remains of a crash."""
        return set(found) - self.used
