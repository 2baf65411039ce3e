"""Statistics of checkpoints outlive whoever writes them."""

from __future__ import annotations

from pathlib import Path

from holdfast.protocol.statistics import CheckpointFigures
from holdfast.runtime.history import History
from holdfast.storage.names import temporary_name


def kept(location: Path, *checkpoints: int) -> History:
    history = History(str(location))
    for number in checkpoints:
        history.begin(CheckpointFigures(number, 1.0, 1, "PERIODIC", True, False))
        history.completed(number, 2.0, f"/chk-{number}")
    return history


def test_what_a_dead_runner_was_writing_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    history = kept(tmp_path, 1)
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "1.json").write_text("{}")
    for place in (tmp_path, tmp_path / "failures"):
        (place / temporary_name()).write_text("{")
    history.delete_unfinished()
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert left == ["1.json", "failures/1.json"]
