"""The channel behind a region: one segment per batch.

``log/<batch>`` names the files of the batch's segment. It is written when all of them are, and
before Spark records the batch as committed; readers see the segment when it is committed. A batch
that is run again after a crash finds its old entry removed and writes files with new names, so what
an old process is still writing can never be taken for data.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.errors import DamagedFile
from holdfast.protocol.segments import unread_bytes
from holdfast.spark.streams import DataFile
from holdfast.steps import step
from holdfast.storage import Storage, open_storage
from holdfast.storage.trees import delete_tree, entries

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Segment:
    """The output of one batch."""

    batch: int
    folder: str
    """Below ``segments/``."""
    files: tuple[tuple[str, int], ...]
    """Names and sizes."""

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(size for _, size in self.files)


def encode_segment(segment: Segment) -> bytes:
    """A ``log`` entry."""
    return json.dumps({"folder": segment.folder, "files": segment.files}).encode()


def decode_segment(batch: int, data: bytes, path: str) -> Segment:
    """The inverse of ``encode_segment``."""
    try:
        item = json.loads(data)
        files = tuple((str(name), int(size)) for name, size in item["files"])
        return Segment(batch, str(item["folder"]), files)
    except (ValueError, TypeError, KeyError) as cause:
        raise DamagedFile("the entry of a segment is truncated or altered", path=path) from cause


def nothing() -> None:
    """No fence to look at."""


class Channel:
    """Segments of one producer. Thread-safe."""

    def __init__(self, uid: str, storage: Storage, check: Callable[[], None] = nothing) -> None:
        self.uid = uid
        self._check = check
        self.storage = storage
        self._segments: dict[int, Segment] = {}
        self._lock = threading.Lock()

    def recover(self, last_committed: int) -> None:
        """Read the log; entries of batches that were not committed are void and removed.

        So is one that cannot be read. That all which are needed can be was made sure of before
        (``examining``): this one has been read by everybody and was about to be deleted.
        """
        for info in self.storage.list("log"):
            batch = int(info.path.rpartition("/")[2])
            segment = self._read(batch, info.path) if batch <= last_committed else None
            if segment is None:
                self.storage.delete(info.path)
            else:
                self._segments[batch] = segment
        self._remove_unknown()

    def _read(self, batch: int, path: str) -> Segment | None:
        try:
            return decode_segment(batch, self.storage.read(path), self.storage.locate(path))
        except DamagedFile as error:
            _log.warning("a segment that nobody needs is removed: %s", error)
            return None

    def forget_after(self, last_committed: int) -> None:
        """The query begins anew behind this batch: a segment that it published later is void."""
        for info in self.storage.list("log"):
            if int(info.path.rpartition("/")[2]) > last_committed:
                self.storage.delete(info.path)
        with self._lock:
            void = [batch for batch in self._segments if batch > last_committed]
        for segment in self.take_away(void):
            delete_tree(self.storage, f"segments/{segment.folder}")

    def _remove_unknown(self) -> None:
        """Also what a batch has left that died before its first row: a directory without a file."""
        known = {segment.folder for segment in self._segments.values()}
        for folder in entries(self.storage, "segments") - known:
            delete_tree(self.storage, f"segments/{folder}")

    def new_folder(self, batch: int) -> str:
        """A folder that no earlier try of this batch has used."""
        return f"{batch}-{secrets.token_hex(4)}"

    def location(self, folder: str) -> str:
        """Where Spark writes the files of a segment."""
        return self.storage.locate(f"segments/{folder}")

    def publish(self, batch: int, folder: str) -> Segment:
        """Record that the files in ``folder`` are the segment of ``batch``."""
        listed = open_storage(self.location(folder)).list()
        files = [(f.path, f.size) for f in listed if f.path.endswith(".parquet")]
        segment = Segment(batch, folder, tuple(f for f in files if not f[0].startswith(".")))
        self._check()
        with step("publish"):
            self.storage.publish(f"log/{batch}", encode_segment(segment))
        with self._lock:
            self._segments[batch] = segment
        return segment

    def get(self, batch: int) -> Segment:
        """The segment of a batch that has not been deleted."""
        with self._lock:
            return self._segments[batch]

    def batches(self) -> list[int]:
        """Segments that are there."""
        with self._lock:
            return sorted(self._segments)

    def unread(self, readers: dict[str, int], upto: int) -> int:
        """Bytes before position ``upto`` that the slowest reader has not read."""
        with self._lock:
            sizes = {b: s.size for b, s in self._segments.items() if b < upto}
        return unread_bytes(sizes, readers)

    def paths(self, start: int, end: int) -> list[str]:
        """Full locations of the files of segments ``start`` to ``end - 1``."""
        return [file.location for file in self.data_files(start, end)]

    def data_files(self, start: int, end: int) -> list[DataFile]:
        """The same with sizes, for Spark's reader."""
        with self._lock:
            segments = [self._segments[batch] for batch in range(start, end)]
        return [
            DataFile(f"{self.location(segment.folder)}/{name}", size)
            for segment in segments
            for name, size in segment.files
        ]

    def take_away(self, batches: Iterable[int]) -> list[Segment]:
        """Forget segments; their files are then deleted with ``delete``."""
        with self._lock:
            return [self._segments.pop(batch) for batch in batches if batch in self._segments]

    def delete(self, segment: Segment) -> None:
        """Delete a segment that nobody knows any more: the log entry first."""
        self.storage.delete(f"log/{segment.batch}")
        delete_tree(self.storage, f"segments/{segment.folder}")
