"""Which segments of a channel may be deleted, and when its producer must wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


def deletable(
    segments: Iterable[int],
    readers: Mapping[str, int],
    sinks: Mapping[str, int],
    pinned: Collection[int],
) -> list[int]:
    """Segments that nobody will read again.

    ``readers`` are the positions of the regions' committed batches: a batch that is run again
    starts there. ``sinks`` are the positions up to which rows are out for good. ``pinned`` are
    segments that a checkpoint in flight is still copying.
    """
    needed_from = min([*readers.values(), *sinks.values()], default=0)
    return sorted(s for s in segments if s < needed_from and s not in pinned)


def unread_bytes(sizes: Mapping[int, int], readers: Mapping[str, int]) -> int:
    """What the slowest reader, or sink, has still to read."""
    slowest = min(readers.values(), default=None)
    if slowest is None:
        return 0
    return sum(size for segment, size in sizes.items() if segment >= slowest)
