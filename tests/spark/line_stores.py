"""Small sinks on folders of files, for the contract suites to judge."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.own_sink import LinesSink

from holdfast.sinks import Marker, WriteAheadSink

Rows = list[tuple[Any, Any]]


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """What a reader of the folder finds, the rows of older checkpoints first."""
    files = sorted(folder.glob("h*.jsonl"), key=_checkpoint)
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def visible_lines(folder: Path) -> Rows:
    """The same, as the suites want it."""
    return [(row["id"], row["text"]) for row in read_lines(folder)]


def _checkpoint(file: Path) -> int:
    parts = file.name.split("_")
    return int(parts[-3]) if len(parts) > 3 else 0


def newest_lines(folder: Path) -> Rows:
    """What a reader finds who takes the newest row of each key."""
    return list(dict(visible_lines(folder)).items())


class KeyedLines(LinesSink):
    key = ("id",)


class MarkedLines(WriteAheadSink):
    """One file that holds rows and markers; it is replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, marker: Marker, batches: Iterator[Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = read_marked(self.folder)
            if self.name(marker) in content["markers"]:
                return
            for rows in batches:
                content["rows"] += [(row["id"], row["text"]) for row in rows.to_pylist()]
            content["markers"].append(self.name(marker))
            self.replace(content)

    def name(self, marker: Marker) -> str:
        return f"{marker.job_id}/{marker.sink}/{marker.checkpoint}"

    def replace(self, content: dict[str, Any]) -> None:
        new = self.folder / "new"
        new.write_text(json.dumps(content))
        new.rename(self.folder / "all")


def read_marked(folder: Path) -> dict[str, Any]:
    """The rows, and the markers."""
    path = folder / "all"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found or {"rows": [], "markers": []}


# Broken ones: each breaks a rule in a way that has been seen in the wild.


class VisibleAtOnce(LinesSink):
    def staged(self, handle: Any) -> Path:
        return self.folder / f"{handle['name']}.jsonl"

    def pending(self, job_id: str, sink: str) -> list[Any]:
        return []


class CommitsTwice(LinesSink):
    """Copies the rows, and does not remember that it has."""

    def commit(self, handle: Any) -> None:
        with (self.folder / "h.jsonl").open("a") as file:
            file.write(self.kept(handle).read_text())
        if self.staged(handle).exists():
            self.staged(handle).rename(self.kept(handle))

    def kept(self, handle: Any) -> Path:
        staged = self.staged(handle)
        return staged if staged.exists() else self.folder / f"k{handle['name']}"


class RefusesToCommitAgain(LinesSink):
    def commit(self, handle: Any) -> None:
        self.staged(handle).rename(self.folder / f"{handle['name']}.jsonl")


class AbortsNothing(LinesSink):
    def abort(self, handle: Any) -> None:
        pass


class AbortsOnlyOnce(LinesSink):
    def abort(self, handle: Any) -> None:
        self.staged(handle).unlink()


class AbortsWholeEpochs(LinesSink):
    """Aborts the other parts too."""

    def abort(self, handle: Any) -> None:
        begin = self.staged(handle).name.rpartition("_")[0].rpartition("_")[0]
        for file in self.folder.glob(f"{begin}_*"):
            file.unlink()


class ForgetsWhatIsPending(LinesSink):
    def pending(self, job_id: str, sink: str) -> list[Any]:
        return []


class ListsWhatIsOfOthers(LinesSink):
    def pending(self, job_id: str, sink: str) -> list[Any]:
        files = self.folder.glob(f"_holdfast_{job_id}_{sink}*")
        names = [file.name.removeprefix("_") for file in files]
        return [{"checkpoint": int(name.split("_")[-3]), "name": name} for name in names]


class ListsOtherHandles(LinesSink):
    """Says more of a transaction in ``pending`` than ``begin`` did."""

    def pending(self, job_id: str, sink: str) -> list[Any]:
        return [{**found, "found": True} for found in super().pending(job_id, sink)]


class NamesTriesAlike(LinesSink):
    def begin(self, part: Any) -> Any:
        handle = super().begin(part)
        name = handle["name"].rpartition("_")[0] + "_same"
        self.staged(handle).rename(self.folder / f"_{name}")
        return {**handle, "name": name}


class KeepsRowsInMemory(LinesSink):
    def invoke(self, handle: Any, rows: Any) -> None:
        self.__dict__.setdefault("_rows", []).extend(rows.to_pylist())

    def commit(self, handle: Any) -> None:
        lines = [json.dumps(row) + "\n" for row in self.__dict__.get("_rows", [])]
        self.staged(handle).write_text("".join(lines))
        super().commit(handle)


class CommitsByCopying(LinesSink):
    """Half of a copy is visible, and after a crash the copy is begun again behind it."""

    def commit(self, handle: Any) -> None:
        staged = self.staged(handle)
        if not staged.exists():
            return
        with (self.folder / "h.jsonl").open("a", buffering=1) as file:
            for line in staged.read_text().splitlines():
                file.write(line + "\n")
        staged.unlink()


class DoesNotRecover(LinesSink):
    def recover_and_commit(self, handle: Any) -> None:
        pass


class KeepsItsConnection(LinesSink):
    def begin(self, part: Any) -> Any:
        self.connection = socket.socket()
        return super().begin(part)


class HandsOutPaths(LinesSink):
    def begin(self, part: Any) -> Any:
        return {**super().begin(part), "path": self.folder}


class LosesOddTexts(LinesSink):
    def invoke(self, handle: Any, rows: Any) -> None:
        with self.staged(handle).open("a") as file:
            for row in rows.to_pylist():
                file.write(json.dumps({**row, "text": (row["text"] or "").strip()}) + "\n")


class WritesWithoutMarker(MarkedLines):
    def name(self, marker: Marker) -> str:
        return os.urandom(8).hex()


class MarksAlike(MarkedLines):
    def name(self, marker: Marker) -> str:
        return str(marker.checkpoint)


class MarksFirst(MarkedLines):
    """Marker and rows in two transactions."""

    def write(self, marker: Marker, batches: Iterator[Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content = read_marked(self.folder)
        if self.name(marker) in content["markers"]:
            return
        content["markers"].append(self.name(marker))
        self.replace(content)
        for rows in batches:
            content["rows"] += [(row["id"], row["text"]) for row in rows.to_pylist()]
        self.replace(content)


class MarksLast(MarkedLines):
    def write(self, marker: Marker, batches: Iterator[Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content = read_marked(self.folder)
        if self.name(marker) in content["markers"]:
            return
        for rows in batches:
            content["rows"] += [(row["id"], row["text"]) for row in rows.to_pylist()]
            self.replace(content)
        content["markers"].append(self.name(marker))
        self.replace(content)


class RemembersTheNewestMarkerOnly(MarkedLines):
    def replace(self, content: dict[str, Any]) -> None:
        super().replace({**content, "markers": content["markers"][-1:]})
