"""A count by key of files that keep arriving, twice: as a job and as a plain Spark script.

``holdfast run bench/counts.py -- HOME`` runs the job, ``python bench/counts.py HOME`` the script.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf

import holdfast as hf

HOME = Path(sys.argv[1])
MASTER, PARTITIONS = "local[2]", "2"


def arriving(spark: Any) -> Any:
    files = spark.readStream.schema("k long, n long").option("maxFilesPerTrigger", 5)
    return files.parquet(str(HOME / "in"))


def counted(rows: Any) -> Any:
    return rows.groupBy("k").agg(sf.count("*").alias("c"), sf.sum("n").alias("s"))


job = hf.Job(
    "counts",
    settings={
        "holdfast.work.dir": str(HOME / "work"),
        "holdfast.spark.master": MASTER,
        "parallelism.default": PARTITIONS,
        "execution.checkpointing.interval": "5s",
    },
)


@job.region("counts", reads=job.source("files", arriving), output_mode="update")
def counts(files: Any) -> Any:
    return counted(files)


job.sink("out", counts, hf.sinks.files(HOME / "out"))


def run_plain() -> None:
    """What people write by hand."""
    from holdfast.spark.session import local_session

    settings = {"spark.master": MASTER, "spark.sql.shuffle.partitions": PARTITIONS}
    query = (
        counted(arriving(local_session("counts", **settings)))
        .writeStream.outputMode("update")
        .foreachBatch(lambda rows, _: rows.write.mode("append").parquet(str(HOME / "out")))
        .option("checkpointLocation", str(HOME / "log"))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    run_plain()
