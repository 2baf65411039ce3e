"""What ``run.py`` tells: new counts as a reader sees them, and what the job says of itself."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from reader import TOPIC, newest, opened
from rich.console import Console

from holdfast.cli.demo.children import Child
from holdfast.errors import EnvironmentProblem

PATIENCE = 900.0
console = Console(highlight=False, markup=False)


def say(text: str, style: str = "bold") -> None:
    console.print(text, style=style, soft_wrap=True)
    console.file.flush()  # live in a file or a pipe, too


class Watch:
    """Looks at the topic with the counts and at the events of the job."""

    def __init__(self, servers: str, job: Child, events: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.checkpoints = 0
        self._job = job
        self._life = ExitStack()
        self._consumer = self._life.enter_context(opened(servers, TOPIC))
        self._events = self._life.enter_context(events.open())
        self._begun = time.monotonic()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self._life.close()

    @property
    def counted(self) -> int:
        """Page views in the counts that can be seen."""
        return self.counts.total()

    def two_more_checkpoints(self) -> None:
        """The first that is heard of may be the one whose counts were just seen."""
        before = self.checkpoints
        self.until(lambda: self.checkpoints >= before + 2)

    def until(self, enough: Callable[[], bool]) -> None:
        """Tell what happens until it is so."""
        end = time.monotonic() + PATIENCE
        while not enough():
            if not self._job.running:
                self._job.finish()  # raises its last words
            if time.monotonic() > end:
                raise EnvironmentProblem(
                    f"nothing of what was waited for within {PATIENCE:.0f} s",
                    hint="Is the machine very busy? Try again, or do it by hand: docs/kafka.md.",
                )
            self._look_at_topic()
            self._look_at_job()

    def _look_at_topic(self) -> None:
        records = newest(self._consumer)
        if records:
            self.counts |= Counter({one.key: json.loads(one.value)["views"] for one in records})
            found = "  ".join(f"{app} {views:,}" for app, views in sorted(self.counts.items()))
            self._tell(f"{self.counted:>7,} counted:  {found}")

    def _look_at_job(self) -> None:
        for event in self._new_events():
            if event["event"] == "restart":
                cause, attempt, delay = event["cause"], event["attempt"], event["delay"]
                self._tell(f"supervisor: {cause}; restart {attempt} in {delay:.1f} s")
            elif event["event"] == "state":
                self._tell(f"job {event['state'].lower()}")
            elif event["event"] == "checkpoint" and event["status"] == "COMPLETED":
                self.checkpoints += 1

    def _new_events(self) -> Iterator[dict[str, Any]]:
        for line in self._events.readlines():
            if line.startswith('{"event"'):  # else a warning, or why the job has ended
                yield json.loads(line)

    def _tell(self, text: str) -> None:
        say(f"   {time.monotonic() - self._begun:5.1f} s  {text}", style="")
