"""``holdfast demo`` for real: whole, and interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import querylog

COMMAND = [sys.executable, "-m", "holdfast.cli", "demo"]


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "80"}


def processes_in(directory: Path) -> list[int]:
    """Processes that were started with a path below ``directory``."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue  # it ended meanwhile
            if f"{directory}/holdfast-demo".encode() in words:
                found.append(int(folder.name))
    return found


def test_the_demo_shows_a_right_result_and_cleans_up(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    ended = subprocess.run(
        [*COMMAND, "--keep", str(kept)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "kill -9: job, Spark and all" in ended.stdout
    assert "$ holdfast checkpoints show checkpoints/" in ended.stdout
    assert "Region totals" in ended.stdout
    assert "Equal, row by row" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
    assert list(tmp_path.iterdir()) == [kept]
    assert processes_in(tmp_path) == []


def test_the_demo_of_query_logs_shows_a_right_result_and_cleans_up(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    ended = subprocess.run(
        [*COMMAND, "log", "--keep", str(kept)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for command in ("inspect orders", "verify orders", "copy orders orders-at-2", "state orders"):
        assert f"$ holdfast log {command}" in ended.stdout
    assert "unfinished  " in ended.stdout
    assert "no problems" in ended.stdout
    assert "Equal, row by row" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
    killed = querylog.inspect(kept / "orders")
    assert killed.unfinished == (killed.committed[-1] + 1,), "no batch was in flight"
    assert querylog.inspect(kept / "orders-at-2").committed[-1] > killed.committed[-1]
    assert list(tmp_path.iterdir()) == [kept]
    assert processes_in(tmp_path) == []


def test_the_demo_refuses_a_directory_that_exists(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*COMMAND, "--keep", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error DESTINATION_EXISTS: ")


def wait_for(pattern: str, directory: Path, process: subprocess.Popen[str]) -> None:
    while not list(directory.glob(pattern)):
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the process ended too early: {process.wait(timeout=0.05)}")


def test_an_interrupted_demo_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        COMMAND,
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for("holdfast-demo-*/work/totals/*/regions/orders/offsets/0", tmp_path, demo)
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=120)
    assert demo.returncode == 130, said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []
