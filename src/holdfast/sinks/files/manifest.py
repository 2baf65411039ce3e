"""The manifest of a directory of files: which files belong to whole epochs.

    <path>/_holdfast/manifest/<job id>/<sink>/<checkpoint>.json               one epoch
    <path>/_holdfast/manifest/<job id>/<sink>/<first>-<last>-<level>-<x>.json  many

An epoch gets its file when all it lists is in place. From time to time those that have gathered are
put into one, which appears before they go: a reader may find an epoch twice and counts it once.
There are about a hundred files for each of two levels, and one more for every ten thousand epochs.
An epoch of which no file is left is forgotten then.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any

from holdfast.errors import FileMissing, StorageError, UnknownFormat
from holdfast.storage import Storage, open_storage
from holdfast.storage.trees import delete_unfinished

FOLDER = "_holdfast/manifest"
_VERSION = 1
_NAME = re.compile(r"(?P<first>\d+)(-(?P<last>\d+)-(?P<level>\d)-[0-9a-f]+)?\.json")
_GATHERED = 100
"""So many files of a level become one of the next."""
_HIGHEST = 2
_PATIENCE = 20


@dataclass(frozen=True, slots=True)
class CommittedEpoch:
    """The files of one checkpoint, by one sink; all of them have been there together."""

    job_id: str
    sink: str
    checkpoint: int
    rows: int
    staged: float
    """Seconds since 1970."""
    files: tuple[tuple[str, int], ...]
    """Names below the directory, and sizes."""

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(size for _, size in self.files)


def to_item(epoch: CommittedEpoch) -> dict[str, Any]:
    """As JSON values."""
    return {
        "job": epoch.job_id,
        "sink": epoch.sink,
        "checkpoint": epoch.checkpoint,
        "rows": epoch.rows,
        "staged": epoch.staged,
        "files": epoch.files,
    }


def from_item(item: Mapping[str, Any]) -> CommittedEpoch:
    """The inverse of ``to_item``."""
    return CommittedEpoch(
        job_id=item["job"],
        sink=item["sink"],
        checkpoint=item["checkpoint"],
        rows=item["rows"],
        staged=item["staged"],
        files=tuple((name, size) for name, size in item["files"]),
    )


def encode(epochs: Sequence[CommittedEpoch]) -> bytes:
    """A file of the manifest."""
    return json.dumps({"version": _VERSION, "epochs": [to_item(e) for e in epochs]}).encode()


def decode(data: bytes, path: str) -> list[CommittedEpoch]:
    """The inverse of ``encode``."""
    document = json.loads(data)
    if (version := document.get("version")) != _VERSION:
        raise UnknownFormat(
            f"a manifest of version {version} is not known",
            hint="It was written by a newer Holdfast. Upgrade this one.",
            path=path,
        )
    return [from_item(item) for item in document["epochs"]]


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file of the manifest, by its name."""

    first: int
    last: int
    level: int
    path: str


def entry_at(path: str) -> Entry | None:
    """What a file holds; ``None`` if it is not of the manifest."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    if found is None:
        return None
    first = int(found["first"])
    return Entry(first, int(found["last"] or first), int(found["level"] or 0), path)


def to_gather(entries: Iterable[Entry]) -> list[Entry]:
    """Entries of one level that should become one; the newest epoch stays by itself."""
    for level in range(_HIGHEST):
        same = sorted(entry for entry in entries if entry.level == level)
        gathered = same if level else same[:-1]
        if len(gathered) >= _GATHERED:
            return gathered
    return []


class Manifest:
    """What one sink of one job has committed. Only that sink writes here."""

    def __init__(self, storage: Storage, job_id: str, sink: str) -> None:
        self._storage = storage
        self._folder = f"{FOLDER}/{job_id}/{sink}"

    def has(self, checkpoint: int) -> bool:
        """Whether the epoch was committed; of one with no file left it may be forgotten."""
        covering = [e for e in self._entries() if e.first <= checkpoint <= e.last]
        epochs = (epoch for entry in covering for epoch in _read(self._storage, entry))
        return any(epoch.checkpoint == checkpoint for epoch in epochs)

    def newest(self) -> CommittedEpoch | None:
        """The last epoch that was committed."""
        entries = self._entries()
        if not entries:
            return None
        last = max(entries, key=lambda entry: (entry.last, -entry.level))
        return _read(self._storage, last)[-1]

    def add(self, epoch: CommittedEpoch) -> None:
        """All files of the epoch are in place."""
        self._storage.publish(f"{self._folder}/{epoch.checkpoint:012d}.json", encode([epoch]))

    def delete_unfinished(self) -> None:
        """Delete what a process was writing here when it died."""
        delete_unfinished(open_storage(self._storage.locate(self._folder)))

    def gather(self, is_there: Callable[[str], bool]) -> None:
        """Put many files of the manifest into one, if there are many."""
        while gathered := to_gather(self._entries()):
            epochs = _distinct(e for entry in gathered for e in _read(self._storage, entry))
            kept = [e for e in epochs if any(is_there(name) for name, _ in e.files)]
            if kept:
                self._storage.publish(self._name(gathered), encode(kept))
            for entry in gathered:
                self._storage.delete(entry.path)

    def _name(self, gathered: Sequence[Entry]) -> str:
        first, last = gathered[0].first, max(entry.last for entry in gathered)
        level = gathered[0].level + 1
        # Never a name that an earlier try has used: that may have found other files there.
        token = secrets.token_hex(4)
        return f"{self._folder}/{first:012d}-{last:012d}-{level}-{token}.json"

    def _entries(self) -> list[Entry]:
        return _entries_below(self._storage, self._folder)


def read_manifest(storage: Storage) -> list[CommittedEpoch]:
    """The epochs of all sinks; those of one sink in order, otherwise by the time of staging.

    Sinks may go on writing meanwhile. If one gathers files while they are listed here, the list may
    lack both those that went and the one they went into; that one is then in the next list.
    """
    entries = _entries_below(storage, FOLDER)
    for _ in range(_PATIENCE):
        try:
            epochs = _distinct(e for entry in entries for e in _read(storage, entry))
        except FileMissing:
            epochs = None
        before, entries = entries, _entries_below(storage, FOLDER)
        if epochs is not None and _gathered(before) == _gathered(entries):
            return _in_order(epochs)
    raise StorageError("the manifest changes faster than it can be read", path=storage.uri)


def _gathered(entries: Iterable[Entry]) -> set[str]:
    return {entry.path for entry in entries if entry.level}


def _entries_below(storage: Storage, folder: str) -> list[Entry]:
    found = (entry_at(info.path) for info in storage.list(folder))
    return [entry for entry in found if entry is not None]


def _read(storage: Storage, entry: Entry) -> list[CommittedEpoch]:
    return decode(storage.read(entry.path), storage.locate(entry.path))


def _distinct(epochs: Iterable[CommittedEpoch]) -> list[CommittedEpoch]:
    by_name = {(e.job_id, e.sink, e.checkpoint): e for e in epochs}
    return [by_name[name] for name in sorted(by_name)]


def _in_order(epochs: Sequence[CommittedEpoch]) -> list[CommittedEpoch]:
    by_sink: dict[tuple[str, str], list[CommittedEpoch]] = {}
    for epoch in epochs:
        by_sink.setdefault((epoch.job_id, epoch.sink), []).append(epoch)
    # Clocks are set back now and then: merging keeps the order within a sink, sorting would not.
    return list(merge(*by_sink.values(), key=lambda epoch: epoch.staged))
