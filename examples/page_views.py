"""Page views, counted: two inputs of different speed flow into one keyed count.

    holdfast run examples/page_views.py -- /tmp/page-views

``live`` brings a row every two seconds. ``archive`` brings old rows as fast as they can be read, so
they pile up in front of ``pv``, which is slow because it also talks to a slow dashboard.
"""

import sys
import time

import holdfast as hf

OUT = sys.argv[1] if len(sys.argv) > 1 else "page-views-data"
PAGES = 5

job = hf.Job(
    "page-views",
    settings={
        "holdfast.work.dir": f"{OUT}/work",
        "execution.checkpointing.interval": "2s",
        "execution.checkpointing.num-retained": 100,
        "execution.checkpointing.externalized-checkpoint-retention": "retain-on-cancellation",
        "holdfast.channel.max-batch-bytes": "1b",  # one segment of each input per batch
        "parallelism.default": 2,
    },
)

COLUMNS = {"page": f"concat('page-', value % {PAGES})", "row": "value"}
live_rows = hf.sources.generator(
    rows=8, rows_per_second=0.5, rows_per_batch=1, partitions=1, columns=COLUMNS
)
archive_rows = hf.sources.generator(rows=800, rows_per_batch=50, partitions=1, columns=COLUMNS)


@job.region("live", reads=job.source("live-clicks", live_rows))
def live(clicks):
    return clicks


@job.region("archive", reads=job.source("archive-clicks", archive_rows))
def archive(clicks):
    return clicks


@job.region("pv", reads=[live, archive], output_mode="update")
def pv(live, archive):
    return live.unionByName(archive).groupBy("page").count()


def slow_dashboard(rows, batch):
    time.sleep(0.2)


job.sink("pv-files", pv, hf.sinks.files(f"{OUT}/pv"))
job.sink("dashboard", pv, hf.sinks.foreach_batch(slow_dashboard))

if __name__ == "__main__":
    job.run()
