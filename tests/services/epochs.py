"""Epochs for sinks, made without a job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.sinks.distributed import Distributed
from holdfast.sinks.interface import Epoch, EpochSegment, Handle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOB = "0123456789abcdef" * 2
SINK = "out"


def epoch(home: Path, batches: Mapping[int, DataFrame], checkpoint: int = 1) -> Epoch:
    """The rows of some batches, staged as a region stages them."""
    segments = [_staged(home / str(checkpoint), n, rows) for n, rows in batches.items()]
    some = next(iter(batches.values()))
    return Epoch(JOB, 1, SINK, checkpoint, segments, some.sparkSession, some.schema)


def _staged(home: Path, batch: int, rows: DataFrame) -> EpochSegment:
    folder = home / f"{batch}-abc"
    rows.write.parquet(str(folder))
    files = sorted(folder.glob("*.parquet"))
    sizes = tuple(file.stat().st_size for file in files)
    return EpochSegment(batch, tuple(map(str, files)), sum(sizes), sizes)


def written(sink: Distributed, rows: Epoch) -> Handle:
    """Check, pre-commit and commit, as for the first checkpoint of a job."""
    sink.check(rows.spark, rows.schema)
    handle = sink.pre_commit(rows)
    sink.commit(rows, handle)
    return handle
