"""What a channel clears away when its job starts again."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.channels import Channel
from holdfast.storage import open_storage


def test_what_batches_that_died_have_written_is_removed_also_directories_without_a_file(
    tmp_path: Path,
) -> None:
    segments = tmp_path / "segments"
    (segments / "0-aa").mkdir(parents=True)
    (segments / "0-aa" / "part.parquet").write_bytes(b"rows")
    (segments / "1-bb" / "_temporary" / "0").mkdir(parents=True)
    (segments / "1-cc").mkdir()
    (segments / "1-cc" / "part.parquet").write_bytes(b"half")
    Channel("all", open_storage(tmp_path)).publish(0, "0-aa")
    again = Channel("all", open_storage(tmp_path))
    again.recover(0)
    assert again.batches() == [0]
    assert [path.name for path in segments.iterdir()] == ["0-aa"]


def test_a_channel_that_has_never_been_written_has_nothing_to_clear_away(tmp_path: Path) -> None:
    channel = Channel("all", open_storage(tmp_path / "new"))
    channel.recover(5)
    assert channel.batches() == []
