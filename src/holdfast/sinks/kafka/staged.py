"""Reading staged rows in the task that sends them, without a detour over Spark's JVM.

There they would be decoded to rows, made into columns again and sent through a socket, which takes
as long as giving them to the producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.storage.local import local_path
from holdfast.storage.names import scheme_of

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 10_000
"""In a batch, as Spark makes them."""


def is_on_disk(files: Iterable[str]) -> bool:
    """Whether a task can open them as it opens any file. For others Spark knows the way."""
    return all(scheme_of(file) in (None, "file") for file in files)


def rows_of(files: Iterable[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """In the order of files and rows."""
    from pyarrow import parquet

    for file in files:
        with parquet.ParquetFile(local_path(file), coerce_int96_timestamp_unit="us") as opened:
            yield from opened.iter_batches(_ROWS, columns=list(columns), use_threads=False)
