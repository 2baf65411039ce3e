"""The query of the demo: plain PySpark, nothing of Holdfast in it but how Spark is started.

python -m holdfast.cli.demo.query INPUT QUERY_LOG RESULTS
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

from holdfast.cli.late_spark import FOR_SHORT_RUNS
from holdfast.spark.session import local_session

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Java does not heed TMPDIR, and leaves libraries behind when it is killed.
_TEMPORARY_FILES = f"-Djava.io.tmpdir={tempfile.gettempdir()}"


def run(source: Path, query_log: Path, results: Path) -> None:
    """Count orders per customer until the input is used up."""
    spark = local_session(
        "holdfast demo",
        **{
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
            "spark.driver.defaultJavaOptions": f"{FOR_SHORT_RUNS} {_TEMPORARY_FILES}",
        },
    )
    query = (
        spark.readStream.schema("customer string, amount long")
        .option("maxFilesPerTrigger", 1)
        .json(str(source))
        .groupBy("customer")
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(query_log))
        .foreachBatch(lambda rows, batch: write(rows, batch, results))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def write(rows: DataFrame, batch: int, results: Path) -> None:
    """One file per batch id: a batch that runs again replaces its own rows and no others."""
    results.mkdir(exist_ok=True)
    unfinished = results / f".batch-{batch}"
    unfinished.write_text(json.dumps([row.asDict() for row in rows.collect()]))
    unfinished.rename(results / f"batch-{batch}.json")


if __name__ == "__main__":
    run(*(Path(arg) for arg in sys.argv[1:]))
