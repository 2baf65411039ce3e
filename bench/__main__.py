"""``make bench``: writes ``bench/results.md``, part by part, each as soon as it is measured.

``BENCH_PARTS`` picks parts (``jobs,sinks,kafka,recovery,copies``); the sections of others stay as
they are. ``BENCH_MB`` is the size of the state to copy (default 1000), ``BENCH_ROUNDS`` how often
things are measured, ``BENCH_KAFKA_SCALE`` how many times the usual rows go through Kafka,
``BENCH_RESULTS`` another file to write.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from bench import copying, jobs, kafka, recovery, sinks
from bench.report import put

RESULTS = Path(os.environ.get("BENCH_RESULTS") or Path(__file__).with_name("results.md"))
PARTS = {
    "jobs": jobs.measure,
    "sinks": sinks.measure,
    "kafka": kafka.measure,
    "recovery": recovery.measure,
    "copies": copying.measure,
}
ORDER = ("Jobs", "Sinks", "Kafka", "Recovery", "Copies of query logs")


def main() -> None:
    """Measure and write."""
    for name in os.environ.get("BENCH_PARTS", ",".join(PARTS)).split(","):
        began = time.monotonic()
        section = PARTS[name]()
        put(RESULTS, section, _stamp(), ORDER)
        print(f"{section}\n{name}: {time.monotonic() - began:.0f} s, in {RESULTS}\n", flush=True)


def _stamp() -> str:
    return (
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}."
    )


if __name__ == "__main__":
    main()
