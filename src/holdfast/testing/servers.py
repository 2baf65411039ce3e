"""Servers for tests and examples: free ports, waiting until one is up, ending it in any case."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.errors import EnvironmentProblem

LOOPBACK = "127.0.0.1"
_START_DEADLINE = 120.0
_GLANCE = 0.05
_TAIL = 2000


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [one.getsockname()[1] for one in sockets]


def listens(port: int) -> bool:
    """Whether something accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def wait_until(true: Callable[[], bool], what: str, deadline: float = _START_DEADLINE) -> None:
    """Ask again and again until it is so."""
    end = time.monotonic() + deadline
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline:.0f} s: {what}")
        time.sleep(_GLANCE)


# Runs the server and kills it when its own input ends: when its owner says so, and also when the
# owner is killed and can say nothing any more.
_KEEPER = """
import os, signal, subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=lambda: os._exit(server.wait() or 1), daemon=True).start()
sys.stdin.read()
os.killpg(0, signal.SIGKILL)
"""


@contextmanager
def running(command: Sequence[str], log: Path, ready: Callable[[], bool]) -> Iterator[None]:
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
            raise EnvironmentProblem(
                "a server ended as soon as it was started",
                hint=f"Its last words:\n{log.read_text(errors='replace')[-_TAIL:]}",
                command=command[0],
            )
        yield
    finally:
        keeper.communicate()  # ends its input; the data is thrown away: no need to be gentle
