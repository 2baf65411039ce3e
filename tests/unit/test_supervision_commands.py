"""What commands and other runners make of a job whose supervisor waits to restart it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.app import app
from holdfast.cli.launching import Stopping
from holdfast.cli.run import _or_lost
from holdfast.cli.terminal import Terminal
from holdfast.launch import Started
from holdfast.runtime.sentinel import JvmLost
from holdfast.server.claims import AlreadyRunning, claim
from holdfast.server.processes import own_process, process
from holdfast.server.registry import Registry, Restart, Runner, decode, encode
from holdfast.supervision.reporting import nobody
from holdfast.supervision.verdicts import LOST

JOB_ID = "0123456789abcdef0123456789abcdef"


def holdfast(*args: str) -> Result:
    return CliRunner().invoke(app, [*args], env={"COLUMNS": "200"})


@pytest.fixture
def supervisor() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands in for one, and ends when its stdin does."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as started:
        yield started


@pytest.fixture
def waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supervisor: subprocess.Popen[bytes]
) -> Runner:
    """A job whose supervisor waits."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    its = process(supervisor.pid)
    assert its is not None
    restart = Restart(time.time() + 600, 3, "the runner was killed by SIGKILL")
    made = Runner(JOB_ID, "page-views", "/work", time.time(), its, supervisor=its, restart=restart)
    Registry().write(made)
    return made


def test_a_waiting_supervisor_on_record_is_read_as_it_was_written(waiting: Runner) -> None:
    assert decode(encode(waiting)) == waiting
    plain = replace(waiting, supervisor=None, restart=None)
    assert decode(encode(plain)) == plain
    older = {k: v for k, v in json.loads(encode(plain)).items() if k not in ("supervisor",)}
    assert decode(json.dumps(older).encode()) == plain


def test_a_waiting_job_is_listed_with_its_next_attempt(waiting: Runner) -> None:
    (entry,) = json.loads(holdfast("list", "--json").stdout)
    assert (entry["state"], entry["restart"]["attempt"]) == ("RESTARTING", 3)
    assert "RESTARTING (attempt 3 in 9m" in holdfast("list").stdout
    shown = holdfast("info", "page-views")
    assert shown.exit_code == 0
    assert "the runner was killed by SIGKILL" in shown.stdout
    assert json.loads(holdfast("info", "page-views", "--json").stdout)["state"] == "RESTARTING"


def test_a_waiting_job_takes_no_checkpoint(waiting: Runner) -> None:
    refused = holdfast("checkpoint", "page-views")
    assert refused.exit_code == 4
    assert "RESTARTING" in refused.stderr


def test_cancel_ends_the_supervisor_of_a_waiting_job(
    waiting: Runner, supervisor: subprocess.Popen[bytes]
) -> None:
    said = holdfast("cancel", "page-views", "--yes")
    assert said.stdout == (
        "page-views is suspended. It keeps its checkpoints; the next run goes on.\n"
    )
    assert supervisor.wait() == -15


def test_a_waiting_supervisor_keeps_out_all_runners_but_its_own(
    waiting: Runner, tmp_path: Path
) -> None:
    registry = Registry()
    stranger = Runner(JOB_ID, "page-views", "/work", 2.0, own_process())
    with (
        pytest.raises(AlreadyRunning, match=f"pid={waiting.process.pid}"),
        claim(stranger, tmp_path, registry),
    ):
        pass
    own = replace(stranger, supervisor=waiting.process, restart=waiting.restart)
    with claim(own, tmp_path, registry) as claimed:
        (found,) = registry.running()
        assert found.is_restarting
        claimed.reachable("http://127.0.0.1:1", "token")
        (found,) = registry.running()
        assert not found.is_restarting
        assert found.supervisor == waiting.process


def test_a_process_that_cannot_go_on_ends_with_its_own_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def out_of_memory() -> int:
        raise MemoryError

    def without_java() -> int:
        raise JvmLost("Spark's JVM has ended")

    terminal = Terminal(as_json=False)
    assert _or_lost(out_of_memory, terminal, nobody()) == LOST
    assert _or_lost(without_java, terminal, nobody()) == LOST
    assert "error JVM_LOST: Spark's JVM has ended" in capsys.readouterr().err
    assert _or_lost(lambda: 5, terminal, nobody()) == 5


class _Suspendable:
    def __init__(self) -> None:
        self.suspended = 0

    def suspend(self) -> None:
        self.suspended += 1


def test_a_runner_that_was_abandoned_stops_once_whatever_it_was_told_before() -> None:
    job, said = _Suspendable(), list[str]()
    stopping = Stopping(Started(job, ""), said.append)  # type: ignore[arg-type]
    stopping.abandoned()
    stopping.abandoned()
    assert said == ["the end of its supervisor"]
    assert stopping.exit_code == 143


def test_nobody_is_told_anything_without_a_supervisor() -> None:
    reporter = nobody()
    reporter.jvm(own_process())
    assert reporter.supervisor is None
    assert reporter.restart is None
    assert "HOLDFAST_SUPERVISOR" not in os.environ
