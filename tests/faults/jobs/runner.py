"""Run a job that is described in a file: ``python -m … SPEC OUT [--from PATH]``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.faults.jobs.specs import KEYS, JobSpec, RegionSpec, from_dict

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


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
    return job


def function_of(region: RegionSpec) -> Any:
    def passing(*inputs: Any) -> Any:
        rows = inputs[0]
        for other in inputs[1:]:
            rows = rows.unionByName(other)
        return rows.where(f"n % {region.modulus} != 0")

    def count(*inputs: Any) -> Any:
        return passing(*inputs).groupBy((passing_key()).alias("key")).count()

    def join(left: Any, right: Any) -> Any:
        a, b = left.where(f"n % {region.modulus} != 0").alias("a"), right.alias("b")
        return a.join(b, "n").selectExpr("a.s AS s", "n")

    return {"pass": passing, "count": count, "join": join}[region.kind]


def passing_key() -> Any:
    from pyspark.sql import functions as sf

    return sf.col("n") % KEYS


def main() -> None:
    spec_file, out, *rest = sys.argv[1:]
    spec = from_dict(json.loads(Path(spec_file).read_text()))
    arguments = dict(zip(rest[::2], rest[1::2], strict=True))
    settings = (
        {"execution.state-recovery.path": arguments["--from"]} if "--from" in arguments else {}
    )
    outcome = build(spec, Path(out)).run(**settings)
    print(json.dumps({"state": outcome.state, "checkpoint": outcome.checkpoint}))
    if outcome.failure is not None:
        print(outcome.failure, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
