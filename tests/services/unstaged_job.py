"""A job whose only sink is PostgreSQL: ``python -m … SPEC OUT``, as the runner of all others."""

from __future__ import annotations

from pathlib import Path

import holdfast as hf
from tests.faults.jobs import runner
from tests.faults.jobs.specs import JobSpec


def build(spec: JobSpec, out: Path) -> hf.Job:
    (source,), (region,) = spec.sources, spec.regions
    defaults = {
        "holdfast.work.dir": str(out / "work"),
        "parallelism.default": 2,
        "execution.checkpointing.tolerable-failed-checkpoints": 100,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "holdfast.spark.master": "local[2]",
        "spark.driver.extraJavaOptions": runner.QUICK_JAVA,
    }
    job = hf.Job("job", settings={**defaults, **spec.settings})
    rows = hf.sources.generator(
        rows=source.rows,
        rows_per_second=source.rows_per_second,
        rows_per_batch=source.rows_per_batch,
        columns={"s": f"'{source.uid}'", "n": "value"},
    )
    job.source(source.uid, rows)
    job.region(region.uid, reads=region.reads)(runner.function_of(region))
    job.sink("out", region.uid, runner.database("postgres", spec.stores["postgres"], region))
    return job


if __name__ == "__main__":
    runner.main(build)
