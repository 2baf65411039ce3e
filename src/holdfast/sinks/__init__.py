"""Where rows go, and what is promised.

``files(path)``        files, exactly once: visible when their checkpoint completes
``console()``          printed, at least once
``foreach_batch(fn)``  any function of (DataFrame, batch id), at least once

Of your own: subclass ``TwoPhaseCommitSink`` for a store that can prepare a transaction,
``WriteAheadSink`` for one that cannot.
"""

from typing import Any

from holdfast.sinks.distributed import Distributed
from holdfast.sinks.files import FilesSink, files
from holdfast.sinks.interface import Epoch, EpochSegment, EpochSink, Handle, PlainSink
from holdfast.sinks.plain import ForeachBatchSink, console, foreach_batch
from holdfast.sinks.two_phase import Part, TwoPhaseCommitSink, checkpoint_of
from holdfast.sinks.write_ahead import Marker, WriteAhead, WriteAheadSink

__all__ = [
    "Distributed",
    "Epoch",
    "EpochSegment",
    "EpochSink",
    "FilesSink",
    "ForeachBatchSink",
    "Handle",
    "Marker",
    "Part",
    "PlainSink",
    "TwoPhaseCommitSink",
    "WriteAheadSink",
    "checkpoint_of",
    "console",
    "files",
    "for_runtime",
    "foreach_batch",
]


def for_runtime(sink: Any) -> Any:
    """What a user gives to a job, as the runtime drives it."""
    if isinstance(sink, TwoPhaseCommitSink):
        return Distributed(sink)
    if isinstance(sink, WriteAheadSink):
        return WriteAhead(sink)
    return sink
