"""Orders per customer, in two regions. Run it with ``holdfast run totals.py``."""

from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

import holdfast as hf

job = hf.Job(
    "totals",
    settings={
        "holdfast.work.dir": "work",
        "holdfast.trigger": "available-now",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.num-retained": 3,
        "execution.checkpointing.externalized-checkpoint-retention": "retain-on-cancellation",
        "parallelism.default": 2,
    },
)


def read_orders(spark):
    files = spark.readStream.schema("customer string, amount long")
    return files.option("maxFilesPerTrigger", 1).json("input")


@job.region("orders", reads=job.source("files", read_orders))
def orders(files):
    return files.where("amount > 0")


@job.region("totals", reads=orders, output_mode="update")
def totals(orders):
    return orders.groupBy("customer").agg(
        F.count("*").alias("orders"), F.sum("amount").alias("amount")
    )


job.sink("out", totals, hf.sinks.files("out"))

if __name__ == "__main__":
    job.run()
