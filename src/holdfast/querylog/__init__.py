"""Look into, check and copy the query log (``checkpointLocation``) of any streaming query.

    from holdfast import querylog

    querylog.inspect("/data/checkpoints/orders").restorable
    querylog.verify("/data/checkpoints/orders").ok
    querylog.copy("/data/checkpoints/orders", "/data/checkpoints/orders-at-41", batch=41)
    querylog.read_state(spark, "/data/checkpoints/orders", batch=41).show()

A query log is never modified. Locations are paths or URIs (``s3a://``, ``hdfs://`` …).
This package is the only one that knows Spark's files.
"""

from holdfast.querylog.activity import Activity
from holdfast.querylog.copying import CopyReport, copy
from holdfast.querylog.handles import HandleFile, StateHandle, handle
from holdfast.querylog.inspection import (
    Inspection,
    OperatorReport,
    SourceReport,
    StoreReport,
    inspect,
)
from holdfast.querylog.needs import Problem
from holdfast.querylog.state import read_state
from holdfast.querylog.verification import Verification, verify

__all__ = [
    "Activity",
    "CopyReport",
    "HandleFile",
    "Inspection",
    "OperatorReport",
    "Problem",
    "SourceReport",
    "StateHandle",
    "StoreReport",
    "Verification",
    "copy",
    "handle",
    "inspect",
    "read_state",
    "verify",
]
