"""What the newest checkpoint promised to the sinks, kept a second time in the working directory.

A checkpoint whose ``_metadata`` is damaged still is one: its transactions were, or will be,
committed. Whoever went on without knowing them would write those rows again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from holdfast.checkpoints.metadata import CheckpointMetadata, decode, encode
from holdfast.errors import FileMissing, MissingFile
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

    def newest(
        self, completed: Mapping[int, CheckpointMetadata], damaged: Collection[int]
    ) -> CheckpointMetadata | None:
        """The newest checkpoint that is or was stored, whatever has become of its files.

        ``completed`` are the attempt's own ones that can be read. A promise is read only for
        want of them: if the checkpoint is whole, it does not matter that its copy here is not.
        """
        number = max([*completed, *self._made(damaged)], default=None)
        if number is None:
            return None
        return completed[number] if number in completed else self._get(number)

    def _made(self, damaged: Collection[int]) -> set[int]:
        """Checkpoints of this attempt that were stored."""
        paths = self._paths()
        stored = {number for number, path in paths if path.endswith(_STORED)}
        return stored | ({number for number, _ in paths} & set(damaged))

    def _paths(self) -> list[tuple[int, str]]:
        paths = [info.path for info in self._storage.list(_FOLDER)]
        return [(int(path.rpartition("/")[2].removesuffix(_STORED)), path) for path in paths]

    def _get(self, checkpoint: int) -> CheckpointMetadata:
        path = f"{_FOLDER}/{checkpoint}"
        try:
            return decode(self._storage.read(path), self._storage.locate(path))
        except FileMissing as cause:
            raise MissingFile(
                f"what checkpoint {checkpoint} has promised to sinks is lost",
                path=self._storage.locate(path),
            ) from cause
