"""A sink of your own: files of JSON lines that appear exactly once.

    holdfast run examples/own_sink.py -- /tmp/own-sink

Kill it with ``kill -9`` as often as you like and start it again: every row is there once.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

import holdfast as hf
from holdfast.sinks import Handle, Part, TwoPhaseCommitSink, checkpoint_of


class LinesSink(TwoPhaseCommitSink):
    """A file for each part of an epoch. Until it is committed, its name begins with ``_``."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def begin(self, part: Part) -> Handle:
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = {"checkpoint": part.checkpoint, "name": part.name}
        self.staged(handle).touch()
        return handle

    def invoke(self, handle: Handle, rows: pa.RecordBatch) -> None:
        with self.staged(handle).open("a") as file:
            file.writelines(json.dumps(row, default=str) + "\n" for row in rows.to_pylist())

    def pre_commit(self, handle: Handle) -> None:
        sync(self.staged(handle))  # a power cut must not take the rows …
        sync(self.folder)  # … nor the file

    def commit(self, handle: Handle) -> None:
        with suppress(FileNotFoundError):  # committed before
            self.staged(handle).rename(self.folder / f"{handle['name']}.jsonl")
        sync(self.folder)

    def abort(self, handle: Handle) -> None:
        self.staged(handle).unlink(missing_ok=True)

    def pending(self, job_id: str, sink: str) -> list[Handle]:
        names = [file.name.removeprefix("_") for file in self.folder.glob("_*")]
        found = {name: checkpoint_of(name, job_id, sink) for name in names}
        return [{"checkpoint": n, "name": name} for name, n in found.items() if n is not None]

    def describe(self, handle: Handle) -> str:
        return str(self.staged(handle))

    def staged(self, handle: Handle) -> Path:
        return self.folder / f"_{handle['name']}"


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


OUT = sys.argv[1] if len(sys.argv) > 1 else "own-sink-data"

job = hf.Job(
    "own-sink",
    settings={"holdfast.work.dir": f"{OUT}/work", "execution.checkpointing.interval": "2s"},
)
numbers = job.source("numbers", hf.sources.generator(rows=2_000, rows_per_batch=500))


@job.region("squares", reads=numbers)
def squares(numbers: DataFrame) -> DataFrame:
    return numbers.selectExpr("value", "value * value AS square")


job.sink("lines", squares, LinesSink(f"{OUT}/lines"))

if __name__ == "__main__":
    job.run()
