"""Where rows go. Three kinds so far:

``files(path)``        Parquet files, exactly once: visible when their checkpoint completes
``console()``          printed, at least once
``foreach_batch(fn)``  any function of (DataFrame, batch id), at least once
"""

from holdfast.sinks.files import FilesSink, files
from holdfast.sinks.interface import Epoch, EpochSegment, PlainSink, TwoPhaseSink
from holdfast.sinks.plain import ForeachBatchSink, console, foreach_batch

__all__ = [
    "Epoch",
    "EpochSegment",
    "FilesSink",
    "ForeachBatchSink",
    "PlainSink",
    "TwoPhaseSink",
    "console",
    "files",
    "foreach_batch",
]
