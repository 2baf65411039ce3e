"""What a supervisor makes of a runner's words, its silence and its end: no process, no clock."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from holdfast.cli.run import runner_command
from holdfast.protocol.restarts import Past, RestartIn
from holdfast.protocol.watching import Limits, Pulse
from holdfast.runtime.failure_log import FailureLog
from holdfast.server.processes import Process, own_process
from holdfast.server.registry import Registry, Runner
from holdfast.settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart, Strategy
from holdfast.supervision.inheritance import (
    DEATHS,
    LINK,
    PAST,
    Death,
    Inheritance,
    forget,
    from_environ,
    to_environ,
)
from holdfast.supervision.logs import KEPT, set_aside
from holdfast.supervision.messages import (
    Begun,
    Claimed,
    Dying,
    JvmStarted,
    LogAt,
    Message,
    Over,
    Recorded,
    Restarted,
    Terms,
    decode,
    encode,
)
from holdfast.supervision.recording import record, recovered
from holdfast.supervision.supervisor import RunnerLost, Supervisor
from holdfast.supervision.verdicts import Answer, Died, End, Halfway, verdict

JOB = Claimed("ab" * 16, "views", "/work/views", 1.0)
LIMITS = Limits(heartbeat_timeout=50.0, stuck_timeout=600.0)


# The link


@pytest.mark.parametrize(
    "message",
    [
        Pulse(7.0, "RUNNING", 1, 2, 3, True, "a sink's server"),
        Terms(NoRestart(), Limits(50.0, None)),
        Terms(FixedDelay(None, 2.0), LIMITS),
        Terms(FailureRate(3, 60.0, 1.0), LIMITS),
        Terms(ExponentialDelay(attempts=4), LIMITS),
        LogAt("/home/x.log"),
        JOB,
        JvmStarted(Process(12, 345)),
        Begun("/history"),
        Restarted((Past(1.5, 2.5), Past(3.0, 0.0))),
        Recorded(2),
        Dying("out of memory"),
        Over("FINISHED", 0),
    ],
)
def test_what_a_runner_tells_is_understood_as_it_was_meant(message: Message) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert decode(line, at=7.0) == message


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b'{"pulse": 3}', b'{"other": {}}', b"\xff"])
def test_words_that_make_no_sense_are_ignored(line: bytes) -> None:
    assert decode(line, at=0.0) is None


def test_what_earlier_runners_leave_reaches_the_next_one() -> None:
    deaths = (Death(4.0, "it was killed", "a new process", 2, 1.5),)
    left = Inheritance((Past(1.0, 2.0), Past(4.0, 1.5)), deaths, begun=True)
    environ = to_environ(left)
    assert from_environ(environ) == left
    assert from_environ(to_environ(Inheritance())) == Inheritance()
    environ |= {LINK: "3", "HOME": "/"}
    forget(environ)
    assert environ == {"HOME": "/"}


def test_what_is_left_never_outgrows_an_environment_variable() -> None:
    past = tuple(Past(1_700_000_000.123456 + n, 60.123456789) for n in range(20_000))
    deaths = (Death(1_700_000_000.1, "the runner hangs: " + "x" * 200, "y" * 50, 1, 1.0),) * 5000
    environ = to_environ(Inheritance(past, deaths))
    assert all(len(value) < 128 * 1024 for value in environ.values())
    assert from_environ(environ).past[-1] == past[-1]
    assert json.loads(environ[PAST])
    assert json.loads(environ[DEATHS])


# How a runner ended

KILLED = -signal.SIGKILL


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (End(0, Over("FINISHED", 0)), Answer(0)),
        (End(5, Over("FAILED", 5)), Answer(5)),
        (End(4, Over("FAILED", 4), is_restart=True), Answer(4)),
        (End(KILLED, Over("CANCELED", 0)), Answer(0)),
        (End(2), Answer(2)),
        (End(4), Answer(4)),
        (End(143), Answer(143)),
        (End(130), Answer(130)),
        (End(70, has_begun=False), Answer(70)),
        (End(143, asked=15), Answer(143)),
        (End(-15, asked=15), Answer(143)),
        (End(75, asked=2), Answer(130)),
        (End(KILLED, asked=15, killed="hangs: for long"), Answer(143)),
        (End(0, asked=15, over=Over("FINISHED", 0)), Answer(0)),
        (End(KILLED), Died("the runner was killed by SIGKILL")),
        (End(KILLED, has_begun=False), Died("the runner was killed by SIGKILL")),
        (End(-signal.SIGSEGV), Died("the runner was killed by SIGSEGV")),
        (End(-99), Died("the runner was killed by signal 99")),
        (End(75, dying="its JVM ended"), Died("the runner could not go on: its JVM ended")),
        (End(70), Died("the runner ended with exit code 70")),
        (End(137), Died("the runner ended with exit code 137")),
        (End(4, is_restart=True), Died("the runner ended with exit code 4")),
        (End(KILLED, killed="hangs: for long"), Died("the runner hangs: for long")),
        (End(KILLED, killed="hangs: x", has_begun=False), Died("the runner hangs: x")),
    ],
)
def test_an_end_is_an_answer_or_a_death(end: End, expected: Answer | Died) -> None:
    assert verdict(end) == expected


def test_a_job_that_was_to_end_is_not_started_again() -> None:
    stuck = End(KILLED, killed="is stuck: for long", was_ending="CANCELLING")
    assert verdict(stuck) == Halfway(
        "the runner is stuck: for long; the job was CANCELLING, so it is not started again"
    )
    assert verdict(replace(stuck, asked=15)) == Answer(143)


# The supervisor


@dataclass
class FakeRunner:
    """Tells things at their times and ends at its own, or when it is told to."""

    script: list[tuple[float, Message]]
    ends: float = float("inf")
    code: int = 0
    obeys: bool = True
    """Whether it ends when it gets a signal."""
    outside: FakeOutside = field(init=False)
    signals: list[int] = field(default_factory=list)
    was_ended: int = 0
    pid: int = 2**31 - 1  # nobody's
    sockets: list[socket.socket] = field(default_factory=list)

    def heard(self, at: float) -> list[Message]:
        told = [message for when, message in self.script if when <= self.age]
        self.script = [each for each in self.script if each[0] > self.age]
        return [m if not isinstance(m, Pulse) else _at(m, at) for m in told]

    @property
    def age(self) -> float:
        return self.outside.time - self.began

    def begin(self, outside: FakeOutside) -> None:
        self.outside, self.began = outside, outside.time

    def exit_code(self) -> int | None:
        return self.code if self.age >= self.ends else None

    def signal(self, number: int) -> None:
        self.signals.append(number)
        if self.obeys:
            self.ends, self.code = self.age, 128 + number

    def halt(self) -> None:
        self.signals.append(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signals.append(signal.SIGCONT)

    def end(self, jvm: Process | None) -> bool:
        self.was_ended += 1
        if self.exit_code() is None:
            self.ends, self.code = self.age, KILLED
        return True

    def close(self) -> None:
        return None


def _at(pulse: Pulse, at: float) -> Pulse:
    return Pulse(at, pulse.state, pulse.batches, pulse.tasks, pulse.checkpoints, pulse.busy)


CANNOT_START = 1000


class FakeOutside:
    """Time passes when somebody waits."""

    def __init__(self, *runners: FakeRunner, signals: Mapping[float, int] | None = None) -> None:
        self.time = 1000.0
        self.waiting = list(runners)
        self.environs: list[Inheritance] = []
        self.signals = sorted((at + self.time, n) for at, n in (signals or {}).items())
        self.halted = 0

    def start(self, environ: Mapping[str, str]) -> FakeRunner:
        self.environs.append(from_environ(environ))
        runner = self.waiting.pop(0)
        if runner.code == CANNOT_START:
            raise BlockingIOError(11, "no processes left")
        runner.begin(self)
        return runner

    def wait(self, runner: object, seconds: float) -> None:
        self.time += min(seconds, 0.5)

    def next_signal(self) -> int | None:
        if self.signals and self.signals[0][0] <= self.time:
            return self.signals.pop(0)[1]
        return None

    def halt(self) -> None:
        self.halted += 1
        self.time += 3600

    def clock(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    def jitter(self) -> float:
        return 0.0


class Heard:
    """What a supervisor said."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.said: list[str] = []
        self.on_record: list[Runner | None] = []

    def restarting(self, job: Claimed | None, why: str, restart: RestartIn) -> None:
        self.said.append(f"{why}; restart {restart.attempt} in {restart.seconds:.1f} s")

    def failed(self, job: Claimed | None) -> None:
        self.said.append("failed")

    def stopped(self, job: Claimed | None, number: int) -> None:
        self.said.append(f"stopped by {number}")
        self.on_record.append(self._registry.find(JOB.job_id))


class Place:
    """A supervisor and everything around it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.registry = Registry(root / "jobs")
        self.heard = Heard(self.registry)
        self.history = root / "history"

    def run(self, outside: FakeOutside) -> int:
        return Supervisor(outside, self.heard, self.registry).run()

    def runner(
        self,
        restart: Strategy = FixedDelay(2, 10.0),  # noqa: B008  frozen
        more: list[tuple[float, Message]] | None = None,
        ends: float = 5.0,
        code: int = KILLED,
    ) -> FakeRunner:
        told: list[tuple[float, Message]] = [
            (0.0, Terms(restart, LIMITS)),
            (0.0, JOB),
            (1.0, Begun(str(self.history))),
        ]
        return FakeRunner([*told, *(more or [])], ends, code)

    def recorded(self) -> list[tuple[str, str]]:
        log = FailureLog(str(self.history))
        return [(each.message, each.decision) for each in log.all()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def pulses(state: str, until: float, *, busy: bool, grows: bool) -> list[tuple[float, Message]]:
    times = [float(t) for t in range(0, int(until), 10)]
    return [(t, Pulse(0.0, state, int(t) if grows else 3, 0, 0, busy)) for t in times]


def test_an_answer_of_the_runner_is_passed_on(place: Place) -> None:
    done = place.runner(more=[(2.0, Over("FINISHED", 0))], code=0)
    assert place.run(FakeOutside(done)) == 0
    assert place.heard.said == []
    assert done.was_ended == 1


def test_a_killed_runner_is_followed_by_another_that_knows_of_it(place: Place) -> None:
    last = place.runner(more=[(2.0, Recorded(1)), (3.0, Over("FINISHED", 0))], code=0)
    outside = FakeOutside(place.runner(), last)
    assert place.run(outside) == 0
    assert place.heard.said == ["the runner was killed by SIGKILL; restart 1 in 10.0 s"]
    first, second = outside.environs
    assert first == Inheritance()
    assert [past.delay for past in second.past] == [10.0]
    assert second.begun
    assert [death.why for death in second.deaths] == ["the runner was killed by SIGKILL"]
    assert outside.time - 1000.0 >= 20.0
    assert place.registry.find(JOB.job_id) is None
    assert place.recorded() == []  # the runner has written it down


def test_deaths_count_until_the_strategy_gives_up(place: Place) -> None:
    outside = FakeOutside(*(place.runner() for _ in range(3)))
    with pytest.raises(RunnerLost, match="FixedDelayRestartBackoffTimeStrategy"):
        place.run(outside)
    assert [line.partition(";")[2] for line in place.heard.said] == [
        " restart 1 in 10.0 s",
        " restart 2 in 10.0 s",
        "",
    ]
    assert place.heard.said[-1] == "failed"
    # Nobody but the supervisor is left to write them down.
    assert [decision for _, decision in place.recorded()][:2] == ["a new process after 10.0 s"] * 2
    assert place.recorded()[-1][1].startswith("the job failed: ")


def test_restarts_within_the_runner_count_too(place: Place) -> None:
    restarted = Restarted((Past(900.0, 1.0), Past(950.0, 1.0)))
    outside = FakeOutside(place.runner(more=[(2.0, restarted)]))
    with pytest.raises(RunnerLost):
        place.run(outside)


def test_a_death_while_a_restart_was_due_is_not_counted_twice(place: Place) -> None:
    last = place.runner(more=[(2.0, Over("FINISHED", 0))], code=0)
    due = Restarted((Past(1003.0, 60.0),))
    outside = FakeOutside(place.runner(more=[(3.0, due)]), last)
    assert place.run(outside) == 0
    assert len(outside.environs[1].past) == 1


def test_a_runner_that_cannot_be_started_is_tried_again(place: Place) -> None:
    last = place.runner(more=[(2.0, Over("FINISHED", 0))], code=0)
    outside = FakeOutside(place.runner(), place.runner(code=CANNOT_START), last)
    assert place.run(outside) == 0
    assert place.heard.said[1].startswith("the runner could not be started: no processes left")


def test_a_registry_that_cannot_be_written_keeps_no_job_from_restarting(place: Place) -> None:
    (place.root / "jobs").write_text("not a directory")
    last = place.runner(more=[(2.0, Over("FINISHED", 0))], code=0)
    assert place.run(FakeOutside(place.runner(), last)) == 0


def test_deaths_are_over_when_everything_runs_again(place: Place) -> None:
    log = FailureLog(str(place.history))
    record(log, [Death(1.0, "a", "x", 1, 1.0), Death(2.0, "b", "x", 2, 1.0), Death(3.0, "c", "y")])
    recovered(log, 9.0)
    found = [each.recovered for each in FailureLog(str(place.history)).all()]
    assert found == [9.0, 9.0, None]


def test_a_runner_killed_before_it_read_its_settings_is_not_restarted(place: Place) -> None:
    with pytest.raises(RunnerLost, match="had not yet read the settings"):
        place.run(FakeOutside(FakeRunner([], 3.0, KILLED)))


def test_a_silent_runner_is_killed_and_restarted(place: Place) -> None:
    log = place.root / "views.log"
    log.write_text("before\n")
    more = [(0.0, LogAt(str(log))), *pulses("RUNNING", 30, busy=False, grows=False)]
    silent = place.runner(more=more, ends=float("inf"))
    last = place.runner(more=[(2.0, Over("FINISHED", 0))], code=0)
    assert place.run(FakeOutside(silent, last)) == 0
    assert place.heard.said == [
        "the runner hangs: no heartbeat for 50 s; with the last one it was RUNNING; "
        "restart 1 in 10.0 s"
    ]
    assert silent.was_ended >= 1
    written = (place.root / "views.log.1").read_text()
    assert written.startswith("before\n")
    assert "state=RUNNING, batches=3" in written
    assert "is gone; the stacks of its Python threads" in written
    assert "there is no JVM" in written
    assert not log.exists()


def test_a_runner_without_progress_is_stuck(place: Place) -> None:
    more = pulses("RUNNING", 2000, busy=True, grows=False)
    last = place.runner(more=[(2.0, Over("FINISHED", 0))], code=0)
    assert place.run(FakeOutside(place.runner(more=more, ends=1e9), last)) == 0
    assert place.heard.said[0].startswith("the runner is stuck: there is work, but for 600 s no")


def test_a_runner_that_hangs_while_it_stops_for_a_restart_is_replaced(place: Place) -> None:
    more = pulses("RESTARTING", 2000, busy=False, grows=False)
    last = place.runner(more=[(2.0, Over("FINISHED", 0))], code=0)
    assert place.run(FakeOutside(place.runner(more=more, ends=1e9), last)) == 0
    assert place.heard.said[0].startswith("the runner is stuck: it is RESTARTING, but for 600 s")


def test_a_runner_that_hangs_after_it_was_asked_to_stop_is_ended(place: Place) -> None:
    more = pulses("CANCELLING", 2000, busy=False, grows=False)
    deaf = place.runner(more=more, ends=1e9)
    deaf.obeys = False
    assert place.run(FakeOutside(deaf, signals={1.0: signal.SIGTERM})) == 143
    assert deaf.signals == [signal.SIGTERM]
    assert deaf.age < 700


@pytest.mark.parametrize("state", ["CANCELLING", "FAILING"])
def test_a_runner_that_hangs_while_the_job_ends_has_no_successor(place: Place, state: str) -> None:
    more = pulses(state, 2000, busy=False, grows=False)
    with pytest.raises(RunnerLost, match=f"the job was {state}, so it is not started again"):
        place.run(FakeOutside(place.runner(more=more, ends=1e9)))
    assert place.heard.said == ["failed"]
    ((_, decision),) = place.recorded()
    assert decision == "the job has ended"


def test_a_runner_that_has_lost_its_jvm_and_hangs_at_its_end_is_replaced(place: Place) -> None:
    more = [*pulses("FAILING", 20, busy=False, grows=False), (20.0, Dying("its JVM ended"))]
    last = place.runner(more=[(2.0, Over("FINISHED", 0))], code=0)
    assert place.run(FakeOutside(place.runner(more=more, ends=1e9), last)) == 0


def test_a_runner_that_gets_on_or_has_nothing_to_do_is_left_alone(place: Place) -> None:
    for busy, grows in ((True, True), (False, False)):
        more = pulses("RUNNING", 2000, busy=busy, grows=grows)
        runner = place.runner(more=[*more, (2001.0, Over("FINISHED", 0))], ends=2002.0, code=0)
        assert place.run(FakeOutside(runner)) == 0


def test_a_supervisor_that_was_itself_halted_blames_nobody(place: Place) -> None:
    more = pulses("RUNNING", 30, busy=True, grows=True)
    later = [(t + 3600.0, message) for t, message in more]
    end = [(3640.0, Over("FINISHED", 0))]
    runner = place.runner(more=[*more, *later, *end], ends=3641.0, code=0)
    outside = FakeOutside(runner, signals={20.0: signal.SIGTSTP})
    assert place.run(outside) == 0
    assert outside.halted == 1
    assert runner.signals == [signal.SIGSTOP, signal.SIGCONT]


def test_the_first_signal_is_passed_on_and_its_end_is_an_answer(place: Place) -> None:
    runner = place.runner(ends=1e9)
    assert place.run(FakeOutside(runner, signals={3.0: signal.SIGTERM})) == 143
    assert runner.signals == [signal.SIGTERM]
    assert place.heard.said == []


def test_the_second_signal_kills_everything_at_once(place: Place) -> None:
    runner = place.runner(ends=1e9, more=pulses("RUNNING", 60, busy=False, grows=True))
    runner.obeys = False
    signals = {3.0: signal.SIGTERM, 9.0: signal.SIGINT}
    outside = FakeOutside(runner, signals=signals)
    assert place.run(outside) == 130
    assert runner.signals == [signal.SIGTERM]
    assert outside.time < 1000.0 + 10.0


def test_a_signal_while_it_waits_ends_it_at_once(place: Place) -> None:
    runner = place.runner(restart=FixedDelay(9, 600.0))
    outside = FakeOutside(runner, signals={30.0: signal.SIGTERM})
    assert place.run(outside) == 143
    assert place.heard.said[-1] == "stopped by 15"
    assert outside.time < 1000.0 + 31.0
    (waiting,) = place.heard.on_record
    assert waiting is not None
    assert waiting.is_restarting
    assert waiting.process == own_process()
    assert waiting.restart is not None
    assert (waiting.restart.attempt, waiting.restart.at) == (1, 1605.0)
    assert place.registry.find(JOB.job_id) is None


# Around it


def test_a_supervisor_needs_no_spark() -> None:
    code = (
        "import sys, holdfast.cli.app, holdfast.cli.supervising, holdfast.supervision.recording;"
        "sys.exit(', '.join(m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stderr.strip() == ""


def test_the_runner_is_started_with_the_same_command() -> None:
    typed = ["run", "job.py", "--set", "a=b", "--", "run", "x"]
    expected = ["run", "--no-supervisor", *typed[1:]]
    script = runner_command(["python", "-X", "dev", "/bin/holdfast", *typed], ["h", *typed])
    assert script == [sys.executable, "-X", "dev", "/bin/holdfast", *expected]
    module = runner_command(["python", "-m", "holdfast.cli", *typed], ["m", *typed])
    assert module == [sys.executable, "-m", "holdfast.cli", *expected]
    assert runner_command(["python", "-m", "pytest", "x"], ["pytest", "x"]) is None


def test_the_last_logs_are_kept_the_newest_first(tmp_path: Path) -> None:
    log = tmp_path / "views.log"
    for number in range(KEPT + 3):
        log.write_text(str(number))
        assert set_aside(log) == tmp_path / "views.log.1"
        assert not log.exists()
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    newest = KEPT + 2
    assert kept == {f"views.log.{n}": str(newest + 1 - n) for n in range(1, KEPT + 1)}
