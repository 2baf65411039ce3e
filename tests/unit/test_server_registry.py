"""Who runs which job on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.server.claims import LOCK, AlreadyRunning, JvmRemains, claim
from holdfast.server.processes import Process, children, own_process, process
from holdfast.server.registry import Registry, Runner, encode, home

JOB_ID = "0123456789abcdef0123456789abcdef"


def runner(of: Process | None = None, jvm: Process | None = None) -> Runner:
    return Runner(JOB_ID, "page-views", "/work/page-views", 1.0, of or own_process(), jvm)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "home" / "jobs")


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process, which ends when its stdin does."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as started:
        yield started


def living(other: subprocess.Popen[bytes]) -> Process:
    found = process(other.pid)
    assert found is not None
    return found


def ended(other: subprocess.Popen[bytes]) -> Process:
    found = living(other)
    other.kill()
    other.wait()
    return found


# Processes


def test_a_process_runs_until_it_has_ended(other: subprocess.Popen[bytes]) -> None:
    found = living(other)
    assert found.runs
    assert other.pid in children(os.getpid())
    assert not ended(other).runs
    assert process(other.pid) is None


def test_a_dead_process_that_nobody_has_waited_for_does_not_run(
    other: subprocess.Popen[bytes],
) -> None:
    found = living(other)
    assert other.stdin is not None
    other.stdin.close()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert not found.runs


def test_a_pid_that_is_used_again_is_another_process() -> None:
    own = own_process()
    assert own.runs
    assert not replace(own, started=own.started - 1).runs


# The registry


def test_a_runner_is_found_again_with_everything_it_said(registry: Registry) -> None:
    written = replace(runner(jvm=Process(7, 8)), url="http://127.0.0.1:1", token="t")
    registry.write(written)
    assert registry.find(JOB_ID) == written
    assert registry.running() == [written]
    registry.remove(written)
    assert registry.running() == []


def test_only_the_owner_can_read_files_with_tokens(registry: Registry) -> None:
    directory = registry.path_of(JOB_ID).parent
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    registry.write(runner())
    assert directory.stat().st_mode & 0o777 == 0o700
    assert registry.path_of(JOB_ID).stat().st_mode & 0o777 == 0o600
    assert [p.name for p in directory.iterdir()] == [f"{JOB_ID}.json"]


def test_what_a_dead_runner_left_is_ignored_and_removed(
    registry: Registry, other: subprocess.Popen[bytes]
) -> None:
    registry.write(runner(ended(other)))
    assert registry.running() == []
    assert not registry.path_of(JOB_ID).exists()


def test_what_a_reused_pid_seems_to_run_is_ignored_and_removed(registry: Registry) -> None:
    registry.write(runner(replace(own_process(), started=1)))
    assert registry.running() == []
    assert not registry.path_of(JOB_ID).exists()


def test_a_dead_runner_stays_on_record_while_its_jvm_lives(
    registry: Registry, other: subprocess.Popen[bytes]
) -> None:
    registry.write(runner(replace(own_process(), started=1), jvm=living(other)))
    assert registry.running() == []
    assert registry.find(JOB_ID) is not None


@pytest.mark.parametrize("contents", [b"", b"{", b"{}", b"[]", b'{"process": 1}'])
def test_a_file_that_is_no_record_is_removed(registry: Registry, contents: bytes) -> None:
    registry.write(runner())
    registry.path_of(JOB_ID).write_bytes(contents)
    assert registry.running() == []
    assert not registry.path_of(JOB_ID).exists()


def test_a_runner_does_not_remove_the_record_of_another(registry: Registry) -> None:
    mine = runner(Process(1, 1))
    registry.write(runner())
    registry.remove(mine)
    assert registry.find(JOB_ID) == runner()


def test_the_home_is_the_users_unless_said_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    assert home() == tmp_path
    monkeypatch.delenv("HOLDFAST_HOME")
    assert home() == Path.home() / ".holdfast"


# Claims


def test_a_claim_is_on_record_in_both_places_while_it_lasts(
    registry: Registry, tmp_path: Path
) -> None:
    with claim(runner(), tmp_path, registry) as claimed:
        claimed.spark_started(Process(7, 8))
        claimed.reachable("http://127.0.0.1:1", "secret")
        found = registry.find(JOB_ID)
        assert found is not None
        assert (found.jvm, found.token) == (Process(7, 8), "secret")
        locked = json.loads((tmp_path / LOCK).read_bytes())
        assert (locked["jvm"]["pid"], locked["token"]) == (7, None)
    assert registry.find(JOB_ID) is None
    assert (tmp_path / LOCK).read_bytes() == b""


def test_a_live_runner_keeps_others_out_by_its_record(
    registry: Registry, other: subprocess.Popen[bytes]
) -> None:
    registry.write(runner(living(other)))
    with (
        pytest.raises(AlreadyRunning, match=f"pid={other.pid}") as refused,
        claim(runner(), None, registry),
    ):
        pass
    assert "holdfast cancel page-views" in str(refused.value)


def test_the_lock_keeps_out_those_with_another_home(registry: Registry, tmp_path: Path) -> None:
    elsewhere = Registry(tmp_path / "elsewhere")
    with (
        claim(runner(), tmp_path, registry),
        pytest.raises(AlreadyRunning, match=f"pid={os.getpid()}"),
        claim(runner(), tmp_path, elsewhere),
    ):
        pass
    with claim(runner(), tmp_path, elsewhere):
        pass


def test_a_successor_waits_for_the_jvm_of_a_dead_runner(
    registry: Registry, tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    dead = runner(replace(own_process(), started=1), jvm=living(other))
    (tmp_path / LOCK).write_bytes(encode(dead))
    with (
        pytest.raises(JvmRemains, match=f"kill {other.pid}"),
        claim(runner(), tmp_path, registry, patience=0.0),
    ):
        pass
    ended(other)
    with claim(runner(), tmp_path, registry, patience=0.0):
        pass


def test_the_jvm_of_this_process_is_not_waited_for(
    registry: Registry, other: subprocess.Popen[bytes]
) -> None:
    jvm = living(other)
    registry.write(runner(jvm=jvm))
    with claim(runner(), None, registry, own_jvm=jvm, patience=0.0):
        pass


def test_a_failure_ends_a_claim_and_an_interruption_leaves_its_record(
    registry: Registry, tmp_path: Path
) -> None:
    with pytest.raises(ZeroDivisionError), claim(runner(), tmp_path, registry):
        raise ZeroDivisionError
    assert registry.find(JOB_ID) is None
    with pytest.raises(KeyboardInterrupt), claim(runner(), tmp_path, registry):
        raise KeyboardInterrupt
    assert registry.find(JOB_ID) == runner()
    assert json.loads((tmp_path / LOCK).read_bytes())["job_id"] == JOB_ID
