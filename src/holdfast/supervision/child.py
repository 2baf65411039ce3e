"""A runner as its supervisor's child: started with a link, heard, signalled, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.server.processes import Process, children
from holdfast.supervision.family import Family, adopt_orphans, reap_orphans
from holdfast.supervision.inheritance import LINK
from holdfast.supervision.messages import Message, decode
from holdfast.supervision.scratch import Scratch

_AT_ONCE = 65536


class Child:
    """A runner. In a process group of its own, so that Ctrl-C reaches the supervisor alone."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        adopt_orphans()
        others = list(children(os.getpid()))
        self._scratch = Scratch(environ)
        self._link, theirs = socket.socketpair()
        self._link.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                command,
                env={**environ, **self._scratch.environ, LINK: str(theirs.fileno())},
                pass_fds=[theirs.fileno(), *self._scratch.locks],
                # A process in the background that reads from a terminal is halted.
                stdin=subprocess.DEVNULL if sys.stdin and sys.stdin.isatty() else None,
                process_group=0,
            )
        self._family = Family(self._process.pid, others)
        self._unfinished = b""
        self._is_open = True

    @property
    def pid(self) -> int:
        """The id of its process, and of its group."""
        return self._process.pid

    def heard(self, at: float) -> list[Message]:
        """What it has told since the last call."""
        *lines, self._unfinished = (self._unfinished + self._received()).split(b"\n")
        return [message for line in lines if (message := decode(line, at)) is not None]

    def _received(self) -> bytes:
        parts = []
        with suppress(BlockingIOError, ConnectionError):
            while self._is_open:
                part = self._link.recv(_AT_ONCE)
                self._is_open = bool(part)
                parts.append(part)
        return b"".join(parts)

    @property
    def sockets(self) -> list[socket.socket]:
        """What can be read from when it has told something; empty when it never will."""
        return [self._link] if self._is_open else []

    def exit_code(self) -> int | None:
        """How it ended, negative if by a signal; ``None`` if it runs."""
        reap_orphans(self.pid)
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send it a signal, to its process alone."""
        self._process.send_signal(number)

    def halt(self) -> None:
        """Let it and its JVM wait."""
        self._signal_group(signal.SIGSTOP)

    def go_on(self) -> None:
        """After ``halt``."""
        self._signal_group(signal.SIGCONT)

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end(self, jvm: Process | None) -> bool:
        """Kill what is left of it; returns whether nothing is."""
        known = [jvm] if jvm is not None else []
        if self._process.poll() is None:
            self._process.kill()
        gone = self._family.kill(known)
        self._process.wait()
        return gone

    def close(self) -> None:
        """Hear no more; its temporary files go."""
        self._scratch.delete()
        self._is_open = False
        self._link.close()
