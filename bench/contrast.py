"""The same kills for a hand-written ``foreachBatch`` append and for a job: rows lost and repeated.

``python -m bench.contrast plain|job DIR`` runs one of the two; ``measure`` kills both again and
again, each time as soon as new rows can be seen, and counts.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holdfast as hf

ROWS = 20_000
PER_BATCH = 500
KILLS = 6
LAST = ROWS * 4 // 5
"""Not when it is about to end: a job that has finished does not run again."""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was in the table in the end."""

    kills: int
    lost: int
    repeated: int


def source() -> hf.sources.Generator:
    return hf.sources.generator(rows=ROWS, rows_per_batch=PER_BATCH, rows_per_second=2_000)


def plain(home: Path) -> None:
    """What people write by hand."""
    from holdfast.spark.session import local_session

    spark = local_session("contrast", **{"spark.master": "local[2]"})

    def append(rows: Any, _: int) -> None:
        values = [(row[0],) for row in rows.select("value").collect()]
        with closing(sqlite3.connect(home / "plain.db")) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS out (value INTEGER)")
            connection.executemany("INSERT INTO out VALUES (?)", values)

    rows = source()(spark)
    query = (
        rows.writeStream.foreachBatch(append)
        .option("checkpointLocation", str(home / "log"))
        .start()
    )
    query.processAllAvailable()
    while count(home / "plain.db", "COUNT(DISTINCT value)") < ROWS:
        query.processAllAvailable()
    query.stop()


def job(home: Path) -> None:
    """The same as a job, with the sink for SQLite."""
    made = hf.Job(
        "contrast",
        settings={
            "holdfast.work.dir": str(home / "work"),
            "holdfast.spark.master": "local[2]",
            "execution.checkpointing.interval": "1s",
        },
    )

    @made.region("rows", reads=made.source("numbers", source()))
    def rows(numbers):  # type: ignore[no-untyped-def]
        return numbers.select("value")

    made.sink("out", rows, hf.sinks.sqlite(home / "job.db", "out"))
    made.run()


def measure() -> dict[str, Outcome]:
    """Both, under the same kills."""
    with tempfile.TemporaryDirectory(prefix="holdfast-contrast-") as scratch:
        return {kind: _killed(kind, Path(scratch)) for kind in ("plain", "job")}


def _killed(kind: str, home: Path) -> Outcome:
    table = home / f"{kind}.db"
    kills = 0
    while True:
        seen = count(table, "COUNT(*)")
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.contrast", kind, str(home)],
            cwd=ROOT,
            env={**os.environ, "HOLDFAST_HOME": str(home / "home")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None:
            if kills < KILLS and seen + PER_BATCH < count(table, "COUNT(*)") < LAST:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
            time.sleep(0.01)
        if process.returncode == 0:
            break
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"{kind} failed: run python -m bench.contrast {kind} DIR")
    rows, distinct = (count(table, what) for what in ("COUNT(*)", "COUNT(DISTINCT value)"))
    return Outcome(kills, ROWS - distinct, rows - distinct)


def count(database: Path, what: str) -> int:
    """Of the table ``out``; nothing if it is not there yet."""
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(database, timeout=5)) as connection:
            return int(connection.execute(f"SELECT {what} FROM out").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


if __name__ == "__main__":
    {"plain": plain, "job": job}[sys.argv[1]](Path(sys.argv[2]))
