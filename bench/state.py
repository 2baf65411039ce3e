"""A query log with a lot of RocksDB state, written by a real streaming query."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

VALUE_BYTES = 1000
BATCHES = 4
_STATE = "spark.sql.streaming.stateStore"
_SETTINGS = {
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.minDeltasForSnapshot": "2",
    f"{_STATE}.maintenanceInterval": "1s",
    "spark.sql.shuffle.partitions": "8",
}


def build(spark: SparkSession, megabytes: int, home: Path) -> Path:
    """Keys with values of random bytes, which do not compress, in a few batches."""
    rows = megabytes * 1_000_000 // VALUE_BYTES
    for batch in range(BATCHES):
        _write_input(spark, batch, rows // BATCHES, home / "input")
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    log = home / "log"
    query = (
        session.readStream.schema("k long, v binary")
        .option("maxFilesPerTrigger", 2)
        .parquet(f"{home}/input/*")
        .groupBy("k")
        .agg(sf.first("v").alias("v"))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(log))
        .format("noop")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return log


def _write_input(spark: SparkSession, batch: int, rows: int, directory: Path) -> None:
    random_bytes = sf.concat(
        *[sf.unhex(sf.sha2(sf.concat("id", sf.lit(i)), 512)) for i in range(16)]
    )
    numbers = spark.range(batch * rows, (batch + 1) * rows, numPartitions=2)
    values = sf.substring(random_bytes, 1, VALUE_BYTES).alias("v")
    numbers.select(sf.col("id").alias("k"), values).write.parquet(str(directory / str(batch)))
