"""Temporary files of runners: gone with the runner, or with the next start, never before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.supervision.child import Child
from holdfast.supervision.scratch import Room, Scratch, sweep

LEAVES_FILES = """
import os, pathlib, tempfile
for place in (tempfile.gettempdir(), *os.environ["SPARK_LOCAL_DIRS"].split(",")):
    (pathlib.Path(place) / "blockmgr-1").mkdir()
    (pathlib.Path(place) / "blockmgr-1" / "shuffle").write_text("large")
os.kill(os.getpid(), 9)
"""


def environ(root: Path) -> dict[str, str]:
    dirs = f"{root / 'one'},{root / 'two'}"
    return {**os.environ, "TMPDIR": str(root / "tmp"), "SPARK_LOCAL_DIRS": dirs}


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_what_a_killed_runner_leaves_is_deleted_when_its_end_is_known(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", LEAVES_FILES], environ(tmp_path))
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert len([file for file in files(tmp_path) if file.name == "shuffle"]) == 3
    assert child.exit_code() == -signal.SIGKILL
    child.end(None)
    child.close()
    assert [path for place in tmp_path.iterdir() for path in place.iterdir()] == []


def test_without_directories_for_spark_only_the_temporary_one_is_named(tmp_path: Path) -> None:
    scratch = Scratch({"TMPDIR": str(tmp_path)})
    (room,) = tmp_path.iterdir()
    assert scratch.environ == {"TMPDIR": str(room)}
    scratch.delete()
    assert list(tmp_path.iterdir()) == []


ABANDONS = """
import sys, pathlib, subprocess
from holdfast.supervision.scratch import Room
quiet = subprocess.DEVNULL
room = Room(pathlib.Path(sys.argv[1]))
runner = subprocess.Popen(["sleep", "1000"], pass_fds=[room.lock], stdout=quiet, stderr=quiet)
print(runner.pid, flush=True)
"""


def test_a_directory_is_kept_while_the_runner_lives_and_swept_afterwards(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", ABANDONS, str(tmp_path)], capture_output=True, text=True, check=True
    )
    (room,) = tmp_path.iterdir()
    try:
        sweep(tmp_path)
        assert room.exists(), "the runner has outlived its supervisor and needs its files"
    finally:
        os.kill(int(said.stdout), signal.SIGKILL)
    _until_unlocked(room)
    mine = Room(tmp_path)
    assert list(tmp_path.iterdir()) == [mine.path]
    mine.delete()


def _until_unlocked(room: Path) -> None:
    import fcntl

    with (room / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


@pytest.mark.parametrize("name", ["holdfast-runner-x", "other"])
def test_what_has_no_lock_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_text("mine")
    sweep(tmp_path)
    assert (tmp_path / name / "file").read_text() == "mine"
