"""Watching over one runner, from its start to its end."""

from __future__ import annotations

import signal
from dataclasses import replace

from holdfast.protocol.watching import Alive, Hung, Pulse, hear, judge
from holdfast.protocol.watching import start as begin_to_watch
from holdfast.server.processes import Process
from holdfast.supervision.diagnosis import diagnose
from holdfast.supervision.known import Known
from holdfast.supervision.messages import Dying, JvmStarted, Message, Over
from holdfast.supervision.outside import Outside, RunnerProcess
from holdfast.supervision.verdicts import End

_GLANCE_SECONDS = 0.5
_HELD_UP = 5.0
"""Between two glances: whoever sleeps so long was halted, and so perhaps was the runner."""
_LEFT_ALONE = 10.0
"""In this time a runner notices by itself that its JVM is gone."""


class Oversight:
    """One runner and what is known about it."""

    def __init__(self, outside: Outside, runner: RunnerProcess, known: Known) -> None:
        self._outside = outside
        self._runner = runner
        self._known = known
        self._jvm: Process | None = None
        self._jvm_seen = outside.clock()
        self._looked = outside.clock()
        self._watch = begin_to_watch(outside.clock())
        self._over: Over | None = None
        self._dying: str | None = None
        self._asked: int | None = None
        self._killed: str | None = None
        self._was_ending: str | None = None

    def until_its_end(self, is_restart: bool) -> End:
        """Watch, pass on signals, kill it if it hangs. Nothing of it runs when this returns."""
        try:
            while (code := self._runner.exit_code()) is None:
                self._outside.wait(self._runner, _GLANCE_SECONDS)
                self._listen()
                self._answer_signals()
                self._judge()
            self._listen()
        finally:
            self._runner.end(self._jvm)
            self._runner.close()
        return End(
            code=code,
            over=self._over,
            dying=self._dying,
            killed=self._killed,
            was_ending=self._was_ending,
            asked=self._asked,
            is_restart=is_restart,
            has_begun=self._known.begun,
        )

    # What it tells

    def _listen(self) -> None:
        for message in self._runner.heard(self._outside.clock()):
            self._take(message)

    def _take(self, message: Message) -> None:
        match message:
            case Pulse():
                self._watch = hear(self._watch, message)
            case JvmStarted():
                self._jvm = message.process
            case Dying():
                self._dying = message.why
            case Over():
                self._over = message
            case _:
                self._known.take(message)

    # What others ask

    def _answer_signals(self) -> None:
        while (number := self._outside.next_signal()) is not None:
            if number == signal.SIGTSTP:
                self._pause()
            elif self._asked is None:
                self._asked = number
                self._runner.signal(number)
            else:
                self._asked = number
                self._runner.end(self._jvm)

    def _pause(self) -> None:
        self._runner.halt()
        self._outside.halt()
        self._runner.go_on()

    # What it fails to do

    def _judge(self) -> None:
        now = self._outside.clock()
        if now - self._looked >= _HELD_UP:
            self._watch = replace(self._watch, heard=now, moved=now)
            self._jvm_seen = now
        self._looked = now
        found, last = judge(self._watch, now, self._known.limits), self._watch.last
        if not isinstance(found, Alive):
            if last is not None and last.is_ending and self._dying is None:
                self._was_ending = last.state
            self._kill(f"{'hangs' if isinstance(found, Hung) else 'is stuck'}: {found.why}")
        elif self._is_without_jvm(now):
            self._kill("has lost its JVM and goes on without it")

    def _is_without_jvm(self, now: float) -> bool:
        if self._jvm is None or self._over is not None or self._asked is not None:
            return False
        if self._jvm.runs:
            self._jvm_seen = now
        return now - self._jvm_seen >= _LEFT_ALONE

    def _kill(self, why: str) -> None:
        if self._runner.exit_code() is not None:
            return
        self._killed = why
        if self._known.log is not None:
            diagnose(self._known.log, why, self._watch.last, self._runner.pid, self._jvm)
        self._runner.end(self._jvm)
