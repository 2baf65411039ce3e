"""One job's directory of checkpoints over several lives of its process, and what must be in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.checkpoints.metadata import METADATA, CheckpointMetadata, RegionSnapshot, StoredFile
from holdfast.checkpoints.store import CheckpointStore, CheckpointWriter, read_checkpoint
from holdfast.querylog.checksums import crc32c
from holdfast.storage.local_tree import LocalTree
from holdfast.storage.names import temporary_name


@dataclass(slots=True)
class Begun:
    """A checkpoint in flight, and what its metadata will say."""

    writer: CheckpointWriter
    files: dict[str, StoredFile] = field(default_factory=dict)


@dataclass(slots=True)
class JobDirectory:
    """Checkpoints begun and completed, beside the store's own idea of them."""

    root: Path
    store: CheckpointStore = field(init=False)
    begun: dict[int, Begun] = field(default_factory=dict)
    completed: dict[int, dict[str, StoredFile]] = field(default_factory=dict)
    next_id: int = 1

    def __post_init__(self) -> None:
        self.store = CheckpointStore(str(self.root))

    def step(self, kind: str, which: int, name: str) -> None:
        running, finished = sorted(self.begun), sorted(self.completed)
        match kind:
            case "begin":
                self.begun[self.next_id] = Begun(self.store.begin(self.next_id))
                self.next_id += 1
            case "own" if running:
                self.write_own(self.begun[running[which % len(running)]], name)
            case "share" if running:
                self.share(self.begun[running[which % len(running)]], name)
            case "complete" if running:
                self.complete(running[which % len(running)])
            case "abort" if running:
                self.begun.pop(running[which % len(running)]).writer.abort()
            case "drop" if finished:
                dropped = finished[which % len(finished)]
                del self.completed[dropped]
                self.store.drop(dropped)
            case "crash":
                self.crash()
            case "die dropping" if finished:
                dropped = finished[which % len(finished)]
                del self.completed[dropped]
                (self.root / f"chk-{dropped}" / METADATA).unlink()
                self.crash()
            case "die publishing":
                place = (self.root / "shared" / name).with_name(temporary_name())
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(b"half")
                self.crash()

    def write_own(self, begun: Begun, name: str) -> None:
        data = f"{begun.writer.checkpoint} {name}".encode()
        if name not in begun.files:
            begun.files[name] = _stored(name, data, begun.writer.write_own(name, data))

    def share(self, begun: Begun, name: str) -> None:
        data = f"shared {name}".encode()
        place = f"shared/{name}"
        there = begun.writer.share(name)
        assert there == (self.root / place).is_file()
        if not there:
            assert begun.writer.write_shared(name, data) == place
        begun.files[place] = _stored(name, data, place)

    def complete(self, number: int) -> None:
        begun = self.begun.pop(number)
        begun.writer.complete(metadata_of(number, tuple(begun.files.values())))
        self.completed[number] = begun.files

    def crash(self) -> None:
        """The process dies with whatever it was writing; the kernel drops its locks."""
        for begun in self.begun.values():
            _die(begun.writer)
        self.begun.clear()
        self.store = CheckpointStore(str(self.root))
        assert set(tree_of(self.root)) == self.expected(), "remains of the crash"

    def expected(self) -> set[str]:
        """Every path that completed checkpoints need, directories too."""
        places = [f"chk-{n}/{METADATA}" for n in self.completed]
        places += [f.place or "" for files in self.completed.values() for f in files.values()]
        return {
            str(path)
            for place in places
            for path in (Path(place), *Path(place).parents)
            if str(path) not in (".", "shared")
        }

    def check(self) -> None:
        assert list(self.store.completed) == sorted(self.completed)
        for number, files in self.completed.items():
            metadata, storage = read_checkpoint(str(self.root / f"chk-{number}"))
            assert {f.place: f for f in metadata.files} == {f.place: f for f in files.values()}
            for file in files.values():
                data = storage.read(file.place or "")
                assert (len(data), f"{crc32c(data):08x}") == (file.size, file.crc32c)


def _stored(path: str, data: bytes, place: str) -> StoredFile:
    return StoredFile(path, len(data), f"{crc32c(data):08x}", place=place)


def metadata_of(number: int, files: tuple[StoredFile, ...]) -> CheckpointMetadata:
    region = RegionSnapshot("a", 0, "append", (), {}, files=files)
    return CheckpointMetadata(
        job_id="0" * 32,
        job_name="job",
        id=number,
        kind="checkpoint",
        mode="exactly-once",
        unaligned=False,
        full=False,
        triggered=1.0,
        completed=2.0,
        attempt=1,
        holdfast="0",
        spark="4",
        regions=(region,),
    )


def _die(writer: CheckpointWriter) -> None:
    if isinstance(writer._tree, LocalTree):
        writer._tree._close()  # as the kernel does it


def tree_of(root: Path) -> dict[str, bytes | None]:
    """Every file with its bytes and every directory, but ``shared`` itself."""
    found = {
        str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in root.rglob("*")
    }
    return {path: data for path, data in found.items() if path != "shared"}


@contextmanager
def a_job() -> Iterator[JobDirectory]:
    with tempfile.TemporaryDirectory() as place:
        job = JobDirectory(Path(place) / "job")
        try:
            yield job
        finally:
            for begun in job.begun.values():
                begun.writer.abort()
