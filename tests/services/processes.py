"""Server processes: free ports, waiting until they are up, stopping them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

LOOPBACK = "127.0.0.1"
_START_DEADLINE = 120.0


def missing(what: str) -> NoReturn:
    """A service that cannot be started: a reason to skip on a laptop, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have it: {what}")
    pytest.skip(what)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [one.getsockname()[1] for one in sockets]


def wait_until(true: Callable[[], bool], what: str, deadline: float = _START_DEADLINE) -> None:
    """Ask again and again until it is so."""
    end = time.monotonic() + deadline
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline:.0f} s: {what}")
        time.sleep(0.05)


def listens(port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


# Runs the server and kills it when its own input ends: when the tests say so, and also when the
# test process is killed and can say nothing any more.
_KEEPER = """
import os, signal, subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=lambda: os._exit(server.wait() or 1), daemon=True).start()
sys.stdin.read()
os.killpg(0, signal.SIGKILL)
"""


@contextmanager
def running(command: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[None]:
    """A server process, in a process group of its own that dies with this context."""
    with log.open("wb") as out:
        keeper = subprocess.Popen(
            [sys.executable, "-c", _KEEPER, *command],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        wait_until(lambda: keeper.poll() is not None or ready(), f"{command[0]} is up, see {log}")
        if keeper.poll() is not None:
            raise RuntimeError(f"{command[0]} ended at once:\n{log.read_text()[-2000:]}")
        yield
    finally:
        keeper.communicate()  # ends its input; the data is thrown away: no need to be gentle
