"""How commands end: bugs, signals, pipes without a reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import typer

from holdfast import errors
from holdfast.cli.failures import ExitCode, exit_code, guarded
from holdfast.cli.signals import Interrupted, raised_as_exceptions
from tests.unit.test_cli import make_log

COMMAND = [sys.executable, "-m", "holdfast.cli"]


def ended_by(error: BaseException) -> int:
    def command() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        guarded(command)()
    return int(ended.value.exit_code)


def every(kind: type[errors.HoldfastError]) -> list[type[errors.HoldfastError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in every(child))]


def test_every_error_but_the_root_has_an_exit_code() -> None:
    found = {kind: exit_code(kind("x")) for kind in every(errors.HoldfastError)[1:]}
    assert ExitCode.BUG not in found.values()
    assert found[errors.DestinationExists] == ExitCode.USAGE
    assert found[errors.NotRestorable] == ExitCode.REFUSED
    assert found[errors.NoJava] == ExitCode.ENVIRONMENT


def test_a_bug_is_one_line_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_by(ZeroDivisionError("oh")) == 70
    said = capsys.readouterr().err
    assert said.startswith("error BUG: ZeroDivisionError: oh\n")
    assert "HOLDFAST_DEBUG=1" in said
    assert "Traceback" not in said


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert ended_by(ZeroDivisionError("oh")) == 70
    assert "Traceback" in capsys.readouterr().err


def test_interruptions_have_the_exit_codes_of_the_shell() -> None:
    assert ended_by(KeyboardInterrupt()) == 130
    assert ended_by(Interrupted(signal.SIGINT)) == 130
    assert ended_by(Interrupted(signal.SIGTERM)) == 143
    assert ended_by(Interrupted(signal.SIGHUP)) == 129


def test_only_the_first_signal_raises() -> None:
    raised = []
    with raised_as_exceptions():
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            try:
                os.kill(os.getpid(), number)
            except Interrupted as error:
                raised.append(error)
    assert [error.number for error in raised] == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the process ended too early: {process.wait(timeout=0.001)}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_copy_leaves_nothing(tmp_path: Path, number: int, code: int) -> None:
    log = make_log(tmp_path)
    (log / "sources" / "0").mkdir(parents=True)
    for n in range(2000):
        (log / "sources" / "0" / f"extra-{n}").write_text("x")
    target = tmp_path / "target"
    target.mkdir()
    process = subprocess.Popen(
        [*COMMAND, "log", "copy", str(log), str(target / "copy")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: any(target.iterdir()), process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert "stopped by" in err
    assert "Traceback" not in err
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("args", [["--json"], []])
def test_a_pipe_without_a_reader_is_no_reason_to_complain(tmp_path: Path, args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        ended = subprocess.run(
            [*COMMAND, "log", "inspect", str(make_log(tmp_path)), *args],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (141, "")


def test_output_has_no_colour_outside_a_terminal(tmp_path: Path) -> None:
    (log := make_log(tmp_path)).joinpath("offsets", "1").unlink()
    ended = subprocess.run(
        [*COMMAND, "log", "verify", str(log)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "\x1b" not in ended.stdout + ended.stderr


def test_characters_that_the_terminal_lacks_are_escaped(tmp_path: Path) -> None:
    log = make_log(tmp_path / "schlüssel")
    ended = subprocess.run(
        [*COMMAND, "log", "inspect", str(log)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert ended.returncode == 0
    assert b"schl\\xfcssel" in ended.stdout
