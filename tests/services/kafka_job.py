"""Run a job with a Kafka sink: ``python -m … SPEC OUT [key=value …]``, as ``jobs.runner`` does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import holdfast as hf
from tests.faults.jobs.runner import QUICK_JAVA


def build(spec: dict[str, Any], out: Path) -> hf.Job:
    defaults = {
        "holdfast.work.dir": str(out / "work"),
        "execution.checkpointing.interval": "700ms",
        "execution.checkpointing.num-retained": 3,
        "execution.checkpointing.tolerable-failed-checkpoints": 100,
        "holdfast.spark.master": "local[2]",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
    }
    job = hf.Job("kafka", settings={**defaults, **spec["settings"]})
    rows = hf.sources.generator(
        rows=spec["rows"],
        rows_per_second=spec["rows_per_second"],
        rows_per_batch=20_000,
        partitions=1,  # rows of a batch are then in order
    )
    job.source("numbers", rows)
    job.region("records", reads="numbers")(records)
    sink = hf.sinks.kafka(spec["servers"], spec["topic"], parallelism=spec["parallelism"])
    job.sink("out", "records", sink)
    return job


def records(numbers: Any) -> Any:
    """Seven keys."""
    return numbers.selectExpr(
        "CAST(value % 7 AS STRING) AS key", "CAST(value AS STRING) AS value", "timestamp AS t"
    )


def main() -> None:
    spec_file, out, *rest = sys.argv[1:]
    spec = json.loads(Path(spec_file).read_text())
    os.environ["HOLDFAST_CRASH_GROUP"] = str(os.getpgid(0))
    outcome = build(spec, Path(out)).run(**dict(word.split("=", 1) for word in rest))
    if outcome.failure is not None:
        print(outcome.failure, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
