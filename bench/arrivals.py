"""Input that goes on whoever reads it: files of the same rows, one after another at a pace."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.querylog.snapshots import newest_commit
from holdfast.querylog.sourcelog import chain, decode_seen, log_offset

ROWS = 20_000
KEYS = 1_000
PACE = 1.0
"""Seconds from one file to the next."""


class Arrivals:
    """Drops file after file into a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._sample = directory / ".sample"
        numbers = pa.array(range(ROWS))
        keys = pa.array([n % KEYS for n in range(ROWS)])
        pq.write_table(pa.table({"k": keys, "n": numbers}), self._sample)
        self.count = 0
        """Files that are there."""
        self._changed = threading.Condition()
        self._is_over = False

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """While this lasts, files arrive."""
        self._is_over = False
        thread = threading.Thread(target=self._run, name="arrivals")
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over, max(0.0, due - time.monotonic()))
                if self._is_over:
                    return
                self._drop()
                self._changed.notify_all()
            due += PACE

    def _drop(self) -> None:
        hidden = self._directory / f".{self.count}"  # Spark looks past it
        shutil.copyfile(self._sample, hidden)
        hidden.rename(self._directory / f"{self.count:06}.parquet")
        self.count += 1

    def wait_for_next(self) -> None:
        """Until the next file is there."""
        with self._changed:
            before = self.count
            self._changed.wait_for(lambda: self.count > before)


def files_read(log: Path) -> int:
    """How many files the newest committed batch of a query, and those before it, have read."""
    found = newest_commit(log)
    if found is None:
        return 0
    (offset,) = found.offsets.values()
    upto = log_offset(offset)
    assert upto is not None
    folder = log / "sources" / "0"
    entries = chain({path.name for path in folder.iterdir()}, upto).names
    return sum(len(decode_seen((folder / name).read_bytes(), name)) for name in entries)
