"""``holdfast run`` as a process, and every command on it while it runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.server.processes import children
from holdfast.server.registry import Registry, Runner

HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
PATIENCE = 120.0
ROWS_PER_BATCH = 500

SCRIPT = """\
import sys
import holdfast as hf

out, rows = sys.argv[1], int(sys.argv[2])
job = hf.Job("views", settings={
    "holdfast.work.dir": out + "/work",
    "holdfast.spark.master": "local[2]",
    "parallelism.default": 1,
    "execution.checkpointing.interval": "1s",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
})
clicks = job.source("clicks", hf.sources.generator(
    rows=rows or None, rows_per_batch=500, rows_per_second=2000, partitions=1
))

@job.region("even", reads=clicks)
def even(rows):
    return rows.where("value % 2 = 0").select("value")

job.sink("out", even, hf.sinks.files(out + "/rows"))

if __name__ == "__main__":
    raise SystemExit("not like this")
"""


class Place:
    """A directory with a script, a home, and processes that end with the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.script = root / "job.py"
        self.script.write_text(SCRIPT)
        self.registry = Registry(root / "home" / "jobs")
        self.environ = {**os.environ, "HOLDFAST_HOME": str(root / "home"), "COLUMNS": "120"}
        self.started: list[subprocess.Popen[str]] = []

    def run(self, rows: int, *options: str) -> subprocess.Popen[str]:
        """Start the job; without ``rows`` it never ends."""
        command = [*HOLDFAST, "run", str(self.script), *options, "--", str(self.root), str(rows)]
        process = subprocess.Popen(
            command,
            env=self.environ,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def holdfast(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = [*HOLDFAST, *args]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def json(self, *args: str) -> Any:
        result = self.holdfast(*args, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def runner(self, process: subprocess.Popen[str]) -> Runner:
        """Wait until the job of a process can be talked to."""

        def found() -> Runner | None:
            assert process.poll() is None, process.communicate()
            return next((r for r in self.registry.running() if r.url is not None), None)

        reached: Runner = wait_for(found)
        return reached

    def rows(self) -> list[int]:
        """Every row that the sink has made visible."""
        import pyarrow.parquet as pq

        files = [f for f in (self.root / "rows").glob("*.parquet") if not f.name.startswith(".")]
        return sorted(v for f in files for v in pq.read_table(f).column("value").to_pylist())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for process in made.started:
        # Its supervisor first, which would start another one.
        for group in (process.pid, *children(process.pid)):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        process.wait()


def wait_for(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.1)
    return found


def ask(runner: Runner, path: str) -> Any:
    headers = {"Authorization": f"Bearer {runner.token}"}
    return httpx.get(f"{runner.url}{path}", headers=headers, trust_env=False).json()


def completed(runner: Runner) -> int:
    """How many checkpoints that include a batch have completed."""
    found = ask(runner, f"/jobs/{runner.job_id}/holdfast/checkpoints?last=1000")["checkpoints"]
    return sum(
        each["status"] == "COMPLETED" and each["acknowledged"]["even"]["cut"] >= 0 for each in found
    )


def test_every_command_works_on_a_running_job_until_it_is_cancelled(place: Place) -> None:
    process = place.run(0, "--json")
    runner = place.runner(process)
    wait_for(lambda: completed(runner))

    (entry,) = place.json("list")
    assert (entry["name"], entry["state"], entry["id"]) == ("views", "RUNNING", runner.job_id)
    found = place.json("info", runner.job_id[:8])
    assert [region["uid"] for region in found["regions"]] == ["even"]
    assert place.json("checkpoints", "views", "--last", "1")["checkpoints"]
    for full in ([], ["--full"]):
        taken = place.json("checkpoint", "views", *full)
        details = place.json("checkpoints", "views", "--details", str(taken["id"]))
        assert (details["cause"], details["full"]) == ("USER", bool(full) or details["full"])
    refused = httpx.get(f"{runner.url}/jobs", headers={"Authorization": "x"}, trust_env=False)
    assert refused.status_code == 401
    assert runner.jvm is not None
    assert runner.jvm.runs

    again = place.run(0, "--quiet")
    _, said = again.communicate(timeout=PATIENCE)
    assert again.returncode == 2
    assert f"pid={runner.process.pid}" in said

    assert place.json("cancel", "views", "--yes")["state"] == "CANCELED"
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    events = [json.loads(line) for line in out.splitlines()]
    assert [e["state"] for e in events if e["event"] == "state"][-1] == "CANCELED"
    assert sum(e["event"] == "checkpoint" for e in events) > 1
    assert err == ""
    assert not runner.jvm.runs
    assert place.registry.running() == []
    path = events[-1]["path"]
    assert place.json("checkpoints", "show", path)["regions"][0]["uid"] == "even"
    assert "even" in place.holdfast("checkpoints", "show", path).stdout


def test_a_job_that_was_interrupted_goes_on_exactly_there(place: Place) -> None:
    first = place.run(0)
    runner = place.runner(first)
    wait_for(lambda: completed(runner))
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does
    out, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130, err
    assert "The next run goes on exactly here: holdfast run" in out
    assert place.registry.running() == []

    read = re.search(r"([\d,]+) rows read", out)
    assert read is not None
    rows = int(read[1].replace(",", "")) + 4 * ROWS_PER_BATCH
    second = place.run(rows)
    out, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 0, err
    assert "views finished" in out
    assert "checkpoint" in err
    assert place.rows() == list(range(0, rows, 2))
