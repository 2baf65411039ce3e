"""Run a job that is described in a file: ``python -m … SPEC OUT [key=value …]``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.faults.jobs.specs import KEYS, WINDOW, JobSpec, RegionSpec, from_dict
from tests.faults.jobs.warm import C1_ONLY

QUICK_JAVA = f"{C1_ONLY} {os.environ.get('JOB_JAVA', '')}"


def build(spec: JobSpec, out: Path) -> hf.Job:
    defaults = {
        "holdfast.work.dir": str(out / "work"),
        "parallelism.default": 2,
        "execution.checkpointing.interval": "700ms",
        "execution.checkpointing.num-retained": 1000,
        "execution.checkpointing.tolerable-failed-checkpoints": 100,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "holdfast.spark.master": "local[2]",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    }
    job = hf.Job("job", settings={**defaults, **spec.settings})
    for source in spec.sources:
        job.source(
            source.uid,
            hf.sources.generator(
                rows=source.rows,
                rows_per_second=source.rows_per_second,
                rows_per_batch=source.rows_per_batch,
                columns={"s": f"'{source.uid}'", "n": "value"},
            ),
        )
    for region in spec.regions:
        mode = "update" if region.kind == "count" else "append"
        job.region(region.uid, reads=region.reads, output_mode=mode)(function_of(region))
    for region in spec.with_sink:
        job.sink(f"sink-{region.uid}", region.uid, hf.sinks.files(out / "sinks" / region.uid))
        for kind, place in spec.stores.items():
            job.sink(f"{kind}-{region.uid}", region.uid, database(kind, place, region))
    for uid, place in spec.topics.items():
        job.region(f"records-{uid}", reads=uid)(records)
        job.sink(f"kafka-{uid}", f"records-{uid}", hf.sinks.kafka(*place.split("/")))
    return job


def records(rows: Any) -> Any:
    return rows.selectExpr("s AS key", "CAST(n AS STRING) AS value")


def database(kind: str, place: str, region: RegionSpec) -> Any:
    """Counts replace older counts; other rows are appended."""
    key = "key" if region.kind == "count" else None
    make: dict[str, Any] = {
        "postgres": hf.sinks.postgres,
        "mysql": hf.sinks.mysql,
        "sqlite": hf.sinks.sqlite,
    }
    return make[kind](place, f"rows_{region.uid}", key=key, create=True)


def function_of(region: RegionSpec) -> Any:
    from pyspark.sql import functions as sf

    def passing(*inputs: Any) -> Any:
        rows = inputs[0]
        for other in inputs[1:]:
            rows = rows.unionByName(other)
        return rows.where(f"n % {region.modulus} != 0")

    def in_python(rows: Any) -> Any:
        keeps = sf.udf(lambda n: n % region.modulus != 0, "boolean")
        return rows.where(keeps("n"))

    def count(*inputs: Any) -> Any:
        return passing(*inputs).groupBy((sf.col("n") % KEYS).alias("key")).count()

    def join(left: Any, right: Any) -> Any:
        a, b = left.where(f"n % {region.modulus} != 0").alias("a"), right.alias("b")
        return a.join(b, "n").selectExpr("a.s AS s", "n")

    def window(rows: Any) -> Any:
        timed = rows.selectExpr("n", "timestamp_millis(n) AS t").withWatermark("t", "0 seconds")
        counts = timed.groupBy(sf.window("t", f"{WINDOW} milliseconds")).count()
        return counts.select(sf.unix_millis("window.start").alias("start"), "count")

    kinds = {"python": in_python, "pass": passing, "count": count, "join": join, "window": window}
    return kinds[region.kind]


def main(make: Callable[[JobSpec, Path], hf.Job] = build) -> None:
    spec_file, out, *rest = sys.argv[1:]
    spec = from_dict(json.loads(Path(spec_file).read_text()))
    # A step in an executor's Python takes this process and its JVM along.
    os.environ["HOLDFAST_CRASH_GROUP"] = str(os.getpgid(0))
    settings = dict(word.split("=", 1) for word in rest)
    outcome = make(spec, Path(out)).run(**settings)
    print(json.dumps({"state": outcome.state, "checkpoint": outcome.checkpoint}))
    if outcome.failure is not None:
        print(outcome.failure, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
