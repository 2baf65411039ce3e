"""Going back behind what sinks have committed, without writing a row of it again.

When the newest checkpoint is damaged, an older one is restored. What sinks have committed since
cannot be taken back, so the batches in between are run again exactly as they were: with the same
offsets and watermarks, which their old query log still holds. They rebuild the state; their rows
are known to be in the sinks. This needs functions that give the same rows for the same input.

``replay/base`` in the new attempt says what sinks have got, ``replay/<region>/<batch>`` is the
offsets file of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.checkpoints.metadata import CheckpointMetadata, decode, encode
from holdfast.errors import FileMissing
from holdfast.querylog.snapshots import offsets_file
from holdfast.runtime.promises import without_files
from holdfast.runtime.work import Attempt
from holdfast.storage import Storage, Tree, open_storage

_FOLDER = "replay"
_BASE = f"{_FOLDER}/base"


@dataclass(frozen=True, slots=True)
class Replay:
    """Batches that are to be run again, and the checkpoint that covers them."""

    base: CheckpointMetadata
    batches: Mapping[str, Mapping[int, bytes]]
    """By region and number, the contents of the offsets file."""

    def write(self, tree: Tree) -> None:
        """Make it part of a new attempt."""
        tree.write(_BASE, encode(without_files(self.base)))
        for uid, batches in self.batches.items():
            for number, data in batches.items():
                tree.write(f"{_FOLDER}/{uid}/{number}", data)


def planned(old: Attempt, restored: CheckpointMetadata, newest: CheckpointMetadata) -> Replay:
    """What lies between two checkpoints; ``FileMissing`` if the old attempt does not say."""
    batches = {}
    for region in newest.regions:
        before = restored.region(region.uid)
        first = before.cut + 1 if before is not None else 0
        numbers = range(first, region.cut + 1)
        batches[region.uid] = {n: _offsets(old, region.uid, n) for n in numbers}
    return Replay(newest, batches)


def _offsets(old: Attempt, uid: str, batch: int) -> bytes:
    try:
        return old.storage.read(f"{_FOLDER}/{uid}/{batch}")
    except FileMissing:
        return open_storage(old.region(uid)).read(offsets_file(batch))


def base_of_replay(attempt: Storage) -> CheckpointMetadata | None:
    """What sinks have got, if batches are to be run again."""
    try:
        return decode(attempt.read(_BASE), attempt.locate(_BASE))
    except FileMissing:
        return None


def next_batch(attempt: Attempt, uid: str, last: int) -> bool:
    """Plan the batch after ``last`` as it was, if it is to be run again; whether it is."""
    try:
        data = attempt.storage.read(f"{_FOLDER}/{uid}/{last + 1}")
    except FileMissing:
        return False
    open_storage(attempt.region(uid)).publish(offsets_file(last + 1), data)
    return True
