"""``make bench``: writes ``bench/results.md``.

``BENCH_PARTS`` picks parts (``jobs,sinks,kafka,recovery,copies``), ``BENCH_MB`` the
size of the state to copy (default 1000), ``BENCH_ROUNDS`` how often things are measured,
``BENCH_KAFKA_SCALE`` how many times the usual rows go through Kafka.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from bench import copying, jobs, kafka, recovery, sinks

RESULTS = Path(__file__).with_name("results.md")
PARTS = {
    "jobs": jobs.measure,
    "sinks": sinks.measure,
    "kafka": kafka.measure,
    "recovery": recovery.measure,
    "copies": copying.measure,
}


def main() -> None:
    """Measure and write."""
    wanted = os.environ.get("BENCH_PARTS", ",".join(PARTS)).split(",")
    head = (
        "# Measured by `make bench`\n\n"
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}. The machine is shared and noisy: trust ratios.\n\n"
    )
    parts = [PARTS[name]() for name in wanted]
    print("\n".join(parts))
    if set(wanted) == set(PARTS):
        RESULTS.write_text(head + "\n".join(parts))


if __name__ == "__main__":
    main()
