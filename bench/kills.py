"""From ``kill -9`` to new batches: a job under its supervisor, and a plain script by hand."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.arrivals import Arrivals, files_read
from bench.victims import Victim, newest_batch
from holdfast.errors import QueryLogError
from holdfast.server.registry import Registry

SCRIPT = Path(__file__).with_name("counts.py")
STEADY_BATCHES = 8
BY_HAND, SUPERVISED = "by hand", "supervised"


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds since the kill."""

    first_batch: float
    caught_up: float
    waited: float
    """So many of them because the restart strategy says so."""


class Subject(Protocol):
    """Something that reads ``in`` and may be killed."""

    victim: Victim
    log: Path

    def kill(self) -> None:
        """Returns when nothing of it can commit any more."""
        ...

    def bring_back(self) -> float:
        """Returns the seconds that are waited before it starts."""
        ...


class ByHand:
    """Plain Spark, and an operator who has been waiting for the moment."""

    def __init__(self, home: Path) -> None:
        self.victim = Victim([sys.executable, str(SCRIPT), str(home)], home)
        self.log = home / "log"

    def kill(self) -> None:
        self.victim.kill()

    def bring_back(self) -> float:
        self.victim.start()
        return 0.0


class Supervised:
    """A job by ``holdfast run``. Only its runner is killed; the rest is the supervisor's work."""

    def __init__(self, home: Path) -> None:
        command = [sys.executable, "-m", "holdfast.cli", "run", str(SCRIPT), "--json"]
        self.victim = Victim([*command, "--", str(home)], home)
        self.log = home / "work/counts/attempt-1/regions/counts"

    def kill(self) -> None:
        (runner,) = Registry(self.victim.registry).running()
        members = [runner.process, runner.jvm]
        os.kill(runner.process.pid, signal.SIGKILL)
        self.victim.wait_for(lambda: not any(each and each.runs for each in members))

    def bring_back(self) -> float:
        """The supervisor does, and says when."""
        self.victim.wait_for(lambda: bool(_delays(self.victim.said)))
        (delay,) = _delays(self.victim.said)
        return delay


def _delays(said: Path) -> list[float]:
    lines = said.read_text().splitlines()
    return [json.loads(line)["delay"] for line in lines if line.startswith('{"event": "restart"')]


def measure(home: Path, kills: int) -> dict[str, list[Recovery]]:
    """Both are killed as often; they take turns, and only one of them runs at a time."""
    homes = {BY_HAND: home / "plain", SUPERVISED: home / "job"}
    subjects: dict[str, Subject] = {
        BY_HAND: ByHand(homes[BY_HAND]),
        SUPERVISED: Supervised(homes[SUPERVISED]),
    }
    arrivals = {name: Arrivals(homes[name] / "in") for name in subjects}
    found: dict[str, list[Recovery]] = {name: [] for name in subjects}
    for _ in range(kills):
        for name, subject in subjects.items():
            os.sync()  # what the one before left to be written is not this one's burden
            found[name].append(_killed_once(subject, arrivals[name]))
            print(f"  {name}: {found[name][-1]}", flush=True)
    return found


def _killed_once(subject: Subject, arrivals: Arrivals) -> Recovery:
    """Run it until it is steady, kill it when a file has come, see it come back.

    A supervisor sees one kill only: later restarts would wait longer and longer.
    """
    victim, log = subject.victim, subject.log
    victim.said.unlink(missing_ok=True)
    steady = newest_batch(log) + STEADY_BATCHES
    with arrivals.going_on():
        victim.start()
        try:
            victim.wait_for(lambda: newest_batch(log) >= steady)
            victim.wait_for(CaughtUp(log, arrivals))
            arrivals.wait_for_next()
            killed = time.monotonic()
            subject.kill()
            before = newest_batch(log)
            waited = subject.bring_back()
            victim.wait_for(lambda: newest_batch(log) > before)
            first = time.monotonic() - killed
            victim.wait_for(CaughtUp(log, arrivals))
            return Recovery(first, time.monotonic() - killed, waited)
        finally:
            victim.end()


class CaughtUp:
    """Whether every file that is there has been read by a committed batch.

    It looks only when there is a new batch, so as to take no time from those who work.
    """

    def __init__(self, log: Path, arrivals: Arrivals) -> None:
        self._log = log
        self._arrivals = arrivals
        self._seen = -1

    def __call__(self) -> bool:
        batch, there = newest_batch(self._log), self._arrivals.count
        if batch == self._seen:
            return False
        try:
            read = files_read(self._log)
        except (QueryLogError, OSError):  # a file was compacted away under our eyes: look again
            return False
        self._seen = batch
        return read >= there
