"""An epoch sink whose transactions are files, for jobs in other processes; no Spark needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.sinks import Epoch


class Shelf:
    """``pending/<n>`` becomes ``committed/<n>``; not while there is a file ``down``.

    While there is a file ``away`` nobody can even ask.
    """

    keeps_rows = False

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def check(self, spark: Any, schema: Any) -> None:
        pass

    def pre_commit(self, epoch: Epoch) -> Mapping[str, Any]:
        rows = [row[0] for row in epoch.rows().collect()]
        self.prepare(epoch.checkpoint, rows)
        return {"checkpoint": epoch.checkpoint}

    def prepare(self, checkpoint: int, rows: Sequence[int]) -> None:
        for name in ("pending", "committed"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "pending" / str(checkpoint)).write_text(json.dumps(list(rows)))

    def commit(self, epoch: Epoch, handle: Mapping[str, Any]) -> None:
        number = str(handle["checkpoint"])
        if not (self.folder / "pending" / number).exists():
            return
        if (self.folder / "down").exists():
            raise ConnectionError("the shelf is down")
        (self.folder / "pending" / number).rename(self.folder / "committed" / number)

    def recover_and_commit(self, epoch: Epoch, handle: Mapping[str, Any]) -> None:
        self.commit(epoch, handle)

    def abort(self, handle: Mapping[str, Any]) -> None:
        (self.folder / "pending" / str(handle["checkpoint"])).unlink(missing_ok=True)

    def pending(self, job_id: str, sink: str) -> Sequence[Mapping[str, Any]]:
        if (self.folder / "away").exists():
            raise ConnectionError("the shelf is away")
        return [{"checkpoint": number} for number in self.numbers("pending")]

    def describe(self, handle: Mapping[str, Any]) -> list[str]:
        return [f"shelf place {handle['checkpoint']}"]

    def numbers(self, state: str) -> list[int]:
        if not (self.folder / state).exists():
            return []
        return sorted(int(path.name) for path in (self.folder / state).iterdir())

    def rows(self) -> list[int]:
        """Everything that is committed."""
        files = (self.folder / "committed" / str(n) for n in self.numbers("committed"))
        return sorted(row for file in files for row in json.loads(file.read_text()))
