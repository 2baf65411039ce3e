"""A job with a lot of state: keys with values of random bytes, which do not compress.

``holdfast run bench/payloads.py -- HOME KEYS``. All keys come in a few large batches, then a few of
them come again and again, so that there is always a next batch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf

import holdfast as hf

HOME, KEYS = Path(sys.argv[1]), int(sys.argv[2])
VALUE_BYTES = 1000
BATCHES = 4
HASHES = ", ".join(f"unhex(sha2(concat(value, '-{part}'), 512))" for part in range(16))
VALUE = f"substring(concat({HASHES}), 1, {VALUE_BYTES})"

job = hf.Job(
    "payloads",
    settings={
        "holdfast.work.dir": str(HOME / "work"),
        "holdfast.spark.master": "local[2]",
        "spark.driver.memory": "3g",
        "parallelism.default": 2,
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "5",
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    },
)
load = job.source(
    "load",
    hf.sources.generator(
        rows=KEYS, rows_per_batch=KEYS // BATCHES, columns={"k": "value", "v": VALUE}
    ),
)
change = job.source(
    "change",
    hf.sources.generator(
        rows_per_second=100, rows_per_batch=100, columns={"k": f"value % {KEYS}", "v": VALUE}
    ),
)


@job.region("payloads", reads=[load, change], output_mode="update")
def payloads(load: Any, change: Any) -> Any:
    return load.unionByName(change).groupBy("k").agg(sf.first("v").alias("v"))


def drop(rows: Any, _: int) -> None:
    rows.write.format("noop").mode("append").save()


job.sink("none", payloads, hf.sinks.foreach_batch(drop))
