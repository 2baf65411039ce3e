"""Giving Arrow batches to a function on executors, whatever the columns are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Task = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def map_batches(rows: DataFrame, task: Task, schema: str) -> DataFrame:
    """``mapInArrow``, which by itself does not find columns with dots or backticks in the name."""
    plain = rows.toDF(*(f"c{at}" for at in range(len(rows.columns))))
    return plain.mapInArrow(_Named(task, tuple(rows.columns)), schema)


@dataclass(frozen=True, slots=True)
class _Named:
    """Gives the columns their names back."""

    task: Task
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.task(batch.rename_columns(list(self.names)) for batch in batches)
