"""Page views from Kafka, counted per app, the counts back to Kafka: each view counts once.

    holdfast run examples/page_views_kafka/job.py -- SERVERS [DIRECTORY]

Two regions. ``parse`` turns bytes into columns; ``count`` keeps a count per app, and gives the new
count of every app that a batch has changed. Readers see those when a checkpoint is complete.
"""

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  what everybody calls it

import holdfast as hf

SERVERS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
OUT = sys.argv[2] if len(sys.argv) > 2 else "page-views-data"

job = hf.Job(
    "page-views",
    settings={
        "holdfast.work.dir": f"{OUT}/work",
        "execution.checkpointing.interval": "2s",  # and so the latency of the output
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": "1s",
        "parallelism.default": 2,
    },
)

# Small batches, so that there is something to watch.
views = job.source("views", hf.sources.kafka(SERVERS, "views", max_per_batch=500))


@job.region("parse", reads=views)
def parse(views: DataFrame) -> DataFrame:
    view = F.from_json(F.col("value").cast("string"), "app STRING, page STRING")
    return views.select(view.alias("view")).select("view.*").where("app IS NOT NULL")


@job.region("count", reads=parse, output_mode="update")
def count(parsed: DataFrame) -> DataFrame:
    counts = parsed.groupBy("app").agg(F.count("*").alias("views"))
    return counts.select(
        F.col("app").alias("key"), F.to_json(F.struct("app", "views")).alias("value")
    )


job.sink("counts", count, hf.sinks.kafka(SERVERS, "counts"))

if __name__ == "__main__":
    job.run()
