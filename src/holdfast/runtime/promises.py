"""What the newest checkpoint promised to the sinks, kept a second time in the working directory.

A checkpoint whose ``_metadata`` is damaged still is one: its transactions were, or will be,
committed. Whoever went on without knowing them would write those rows again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from holdfast.checkpoints.metadata import CheckpointMetadata, decode, encode
from holdfast.storage import Storage

_FOLDER = "promised"
_STORED = ".stored"


def without_files(metadata: CheckpointMetadata) -> CheckpointMetadata:
    """What a checkpoint says without what it consists of."""
    regions = tuple(replace(region, files=()) for region in metadata.regions)
    return replace(metadata, regions=regions, in_flight=())


class Promises:
    """Those of one attempt: written before the checkpoint is stored, valid if it is."""

    def __init__(self, attempt: Storage) -> None:
        self._storage = attempt

    def record(self, metadata: CheckpointMetadata) -> None:
        """Keep all of it but the lists of files."""
        self._storage.publish(f"{_FOLDER}/{metadata.id}", encode(without_files(metadata)))

    def settle(self, checkpoint: int) -> None:
        """The checkpoint is stored: what older ones promised is done or in its own promise."""
        self._storage.publish(f"{_FOLDER}/{checkpoint}{_STORED}", b"")
        for number, path in self._paths():
            if number < checkpoint:
                self._storage.delete(path)

    def made(self, damaged: Collection[int]) -> dict[int, CheckpointMetadata]:
        """By checkpoints that are or were stored, whatever has become of their files."""
        stored = {n for n, path in self._paths() if path.endswith(_STORED)} | set(damaged)
        promised = {n for n, path in self._paths() if not path.endswith(_STORED)}
        return {number: self._get(number) for number in sorted(promised & stored)}

    def _paths(self) -> list[tuple[int, str]]:
        paths = [info.path for info in self._storage.list(_FOLDER)]
        return [(int(path.rpartition("/")[2].removesuffix(_STORED)), path) for path in paths]

    def _get(self, checkpoint: int) -> CheckpointMetadata:
        path = f"{_FOLDER}/{checkpoint}"
        return decode(self._storage.read(path), self._storage.locate(path))
