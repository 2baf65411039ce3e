"""The link and the processes at both its ends, with runners that are small Python scripts."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.protocol.restarts import Past
from holdfast.protocol.watching import Pulse
from holdfast.server.processes import children, process
from holdfast.supervision.child import Child
from holdfast.supervision.diagnosis import diagnose
from holdfast.supervision.inheritance import Inheritance, to_environ
from holdfast.supervision.messages import Dying, Message
from holdfast.supervision.outside import System

PATIENCE = 60.0

CONNECTED = """
import os, sys, time, signal, subprocess, threading
from holdfast.supervision.messages import Dying
from holdfast.supervision.reporting import connect
reporter = connect(os.environ)
"""


def wait_for(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.02)
    return found


class Runner:
    """A child that runs a script, and all it has told."""

    def __init__(self, script: str, **environ: str) -> None:
        self.child = Child([sys.executable, "-c", CONNECTED + script], {**os.environ, **environ})
        self.told: list[Message] = []

    def listen(self) -> list[Message]:
        self.told += self.child.heard(time.monotonic())
        return self.told

    def words(self) -> str:
        """What it has told as reason of its end, which is just a text here."""
        found = wait_for(lambda: [m for m in self.listen() if isinstance(m, Dying)])
        assert isinstance(found[0], Dying)
        return found[0].why


@pytest.fixture
def start() -> Iterator[Callable[..., Runner]]:
    made: list[Runner] = []

    def begin(script: str, **environ: str) -> Runner:
        made.append(Runner(script, **environ))
        return made[-1]

    yield begin
    for runner in made:
        runner.child.end(None)
        runner.child.close()
    if sys.platform == "linux":  # others may want their orphans to go where they always go
        ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


Start = Callable[..., Runner]


def test_a_runner_is_heard_at_once_and_knows_who_was_before_it(start: Start) -> None:
    left = Inheritance((Past(1.0, 2.0),), (), begun=True)
    script = """
assert not [name for name in os.environ if name in ("HOLDFAST_SUPERVISOR", "HOLDFAST_PAST")]
reporter.tell(Dying(f"{reporter.inherited.past[0].delay} {reporter.supervisor.pid}"))
signal.pause()
"""
    runner = start(script, **to_environ(left))
    assert runner.words() == f"2.0 {os.getpid()}"
    pulse = wait_for(lambda: [m for m in runner.listen() if isinstance(m, Pulse)])[0]
    assert (pulse.state, pulse.busy) == ("CREATED", False)


def test_a_runner_whose_supervisor_is_gone_ends(start: Start) -> None:
    runner = start("signal.pause()")
    wait_for(runner.listen)
    runner.child.close()
    assert wait_for(runner.child.exit_code) == -signal.SIGTERM


def test_a_runner_does_not_wait_for_a_supervisor_that_takes_nothing_in(start: Start) -> None:
    script = """
for n in range(20_000):
    reporter.tell(Dying("x" * 100))
os._exit(7)
"""
    assert wait_for(start(script).child.exit_code) == 7


def test_nothing_that_a_dead_runner_has_started_remains(start: Start) -> None:
    script = """
stubborn = "import signal, os\\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\\n"
outer = stubborn + "os.setsid()\\nos.fork()\\nsignal.pause()"
found = subprocess.Popen([sys.executable, "-c", outer])
reporter.tell(Dying(str(found.pid)))
signal.pause()
"""
    runner = start(script)
    grandchild = int(runner.words())
    forked = wait_for(lambda: list(children(grandchild)))
    runner.child.signal(signal.SIGKILL)
    assert wait_for(runner.child.exit_code) == -signal.SIGKILL
    assert process(grandchild) is not None
    assert runner.child.end(None)
    assert process(grandchild) is None
    assert process(forked[0]) is None


def test_a_signal_to_the_supervisors_group_does_not_reach_the_runner(start: Start) -> None:
    runner = start("reporter.tell(Dying(str(os.getpgid(0))))\nsignal.pause()")
    assert int(runner.words()) == runner.child.pid != os.getpgid(0)


def test_the_stacks_of_a_runner_that_hangs_are_in_its_log(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "runner.log"
    script = """
os.dup2(os.open(os.environ["LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
def what_it_hangs_in():
    signal.pause()
reporter.tell(Dying(""))
what_it_hangs_in()
"""
    runner = start(script, LOG=str(log))
    runner.words()
    pulse = next(m for m in runner.told if isinstance(m, Pulse))
    diagnose(log, "hangs: no heartbeat for 50 s", pulse, runner.child.pid, None)
    text = log.read_text()
    assert "the runner hangs: no heartbeat for 50 s" in text
    assert "in what_it_hangs_in" in text
    assert "state=CREATED, batches=0" in text
    assert "is asleep" in text


def test_signals_wake_the_supervisor_and_ignored_ones_stay_ignored() -> None:
    system = System([])
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with system.answering():
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
            system.wait(None, PATIENCE)
            assert system.next_signal() == signal.SIGTERM
            assert system.next_signal() is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_end_of_a_runner_wakes_the_supervisor() -> None:
    system = System([sys.executable, "-c", "pass"])
    with system.answering():
        child = system.start({})
        while child.exit_code() is None:
            system.wait(child, PATIENCE)
        assert child.exit_code() == 0
        assert child.end(None)
        child.close()
