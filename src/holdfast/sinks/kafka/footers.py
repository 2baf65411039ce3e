"""What the footers of staged files prove about their rows, without a look at the rows.

Most epochs are small, and a pass over them by executors takes longer than all else that happens
before the checkpoint. A column of texts takes at least as many bytes as its longest text,
however Parquet writes it. So if the columns of a whole file are smaller than the largest record
that the topic takes, every row fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.querylog.progress import in_parallel
from holdfast.sinks.kafka.fitting import Extremes
from holdfast.storage import open_storage

if TYPE_CHECKING:
    from holdfast.sinks.interface import EpochSegment

_MOST_FILES, _LARGEST_FILE = 64, 1 << 20
"""Reading more, or larger ones, takes as long as letting executors do it."""
_CONTENTS = ("key", "value")
_KNOWN = {*_CONTENTS, "partition"}
"""Of other columns the footers do not say what must be known."""


def extremes_of(
    segments: Iterable[EpochSegment], columns: Sequence[str], topic: str, most: int | None
) -> Extremes | None:
    """Bounds of what is in the files; ``None`` if their footers do not tell.

    ``most`` bytes has the largest record: larger files can prove nothing, and are not read.
    """
    files = [
        (name, size)
        for segment in segments
        for name, size in zip(segment.files, segment.sizes, strict=True)
    ]
    largest = min(most or _LARGEST_FILE, _LARGEST_FILE)
    is_cheap = len(files) <= _MOST_FILES and all(size < largest for _, size in files)
    if not set(columns) <= _KNOWN or not is_cheap:
        return None
    footers = in_parallel(lambda file: _footer(file[0]), files)
    groups = (footer.row_group(at) for footer in footers for at in range(footer.num_row_groups))
    return _bounds([_chunks(group) for group in groups], topic)


def _footer(file: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    folder, _, name = file.rpartition("/")
    data = open_storage(folder).read(name)  # small, and not every storage can seek
    return parquet.read_metadata(pa.BufferReader(data))


def _chunks(group: Any) -> dict[str, Any]:
    found = (group.column(number) for number in range(group.num_columns))
    return {chunk.path_in_schema: chunk for chunk in found}


def _bounds(groups: Sequence[dict[str, Any]], topic: str) -> Extremes | None:
    sizes = [sum(_size(group.get(name)) for name in _CONTENTS) for group in groups]
    partitions = [group["partition"] for group in groups if "partition" in group]
    if not all(map(_tells_partitions, partitions)):
        return None
    named = list(_partitions(partitions))
    return Extremes(
        topic,
        max(sizes, default=0),
        min(named, default=None),
        max(named, default=None),
        lacks_key=any(_may_be_null(group.get("key")) for group in groups),
    )


def _size(chunk: Any) -> int:
    return 0 if chunk is None else int(chunk.total_uncompressed_size)


def _tells_partitions(chunk: Any) -> bool:
    found = chunk.statistics
    return found is not None and (found.has_min_max or found.null_count == chunk.num_values)


def _partitions(chunks: Iterable[Any]) -> Iterator[int]:
    for chunk in chunks:
        if chunk.statistics.has_min_max:
            yield from (chunk.statistics.min, chunk.statistics.max)


def _may_be_null(chunk: Any) -> bool:
    found = None if chunk is None else chunk.statistics
    return found is None or not found.has_null_count or found.null_count > 0
