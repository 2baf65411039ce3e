"""What dead runners leave in a working directory goes at the next start, and nothing else."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.work import WorkDirectory
from holdfast.storage.names import staging_name, temporary_name


def test_what_was_being_built_or_deleted_goes_and_attempts_that_ran_stay(tmp_path: Path) -> None:
    work = WorkDirectory(str(tmp_path), "job")
    home = Path(work.location)
    work.begin(None)
    half_deleted = work.begin(None)
    newest = work.begin(None)
    (home / "attempt-2/attempt").unlink()
    (home / "attempt-2/regions").mkdir()
    (home / "attempt-2/regions/log").write_text("{}")
    assert half_deleted.number == 2
    (home / staging_name("attempt-9") / "regions").mkdir(parents=True)
    (home / temporary_name()).write_text("half")
    in_use = home / "attempt-3/regions/empty"
    in_use.mkdir(parents=True)  # Spark may be about to write here
    work.delete_unfinished()
    assert sorted(path.name for path in home.iterdir()) == ["attempt-1", "attempt-3", "job"]
    assert in_use.exists()
    current = work.current()
    assert current is not None
    assert current.number == newest.number


def test_the_number_of_an_attempt_that_lost_its_seal_is_not_given_out_again(tmp_path: Path) -> None:
    work = WorkDirectory(str(tmp_path), "job")
    work.begin(None)
    (Path(work.begin(None).storage.uri) / "attempt").rename(tmp_path / "lost")
    (Path(work.location) / "attempt-2/ended").write_text("{}")
    work.delete_unfinished()
    assert work.begin(None).number == 3
