"""``holdfast transactions`` on jobs that were killed, and on one that runs; then to the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.stores import Shelf

HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
ROWS = 12_000

SCRIPT = """\
import sys
import holdfast as hf
from tests.unit.stores import Shelf
from ahead import Ahead

out = sys.argv[1]
job = hf.Job("views", settings={
    "holdfast.work.dir": out + "/work",
    "holdfast.spark.master": "local[2]",
    "parallelism.default": 1,
    "execution.checkpointing.interval": "500ms",
})
job.source("clicks", hf.sources.generator(
    rows=12000, rows_per_batch=500, rows_per_second=3000, partitions=1
))
job.region("all", reads="clicks")(lambda rows: rows.select("value"))
job.sink("shelf", "all", Shelf(out + "/shelf"))
job.sink("ahead", "all", Ahead(out + "/ahead"))
job.sink("files", "all", hf.sinks.files(out + "/files"))
"""

AHEAD = """\
import json, os, pathlib
from holdfast.sinks import WriteAheadSink

class Ahead(WriteAheadSink):
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def write(self, marker, batches):
        self.folder.mkdir(exist_ok=True)
        rows = [row for batch in batches for row in batch.column(0).to_pylist()]
        final = self.folder / str(marker.checkpoint)
        if not final.exists():
            part = final.with_name(f"{final.name}-{os.getpid()}")
            part.write_text(json.dumps(rows))
            part.rename(final)

    def describe(self):
        return f"files in {self.folder}"
"""


class Place:
    """A job's script, its sinks, and processes that end with the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.script = root / "job.py"
        self.script.write_text(SCRIPT)
        (root / "ahead.py").write_text(AHEAD)
        self.shelf = Shelf(root / "shelf")
        self.shelf.folder.mkdir()
        home = {"HOLDFAST_HOME": str(root / "home"), "COLUMNS": "200", "PYTHONPATH": str(ROOT)}
        self.environ = {**os.environ, **home}
        self.started: list[subprocess.Popen[str]] = []

    def run(self, crash_at: str = "") -> subprocess.Popen[str]:
        """Start the job."""
        process = subprocess.Popen(
            [
                *HOLDFAST,
                "run",
                "--no-supervisor",
                str(self.script),
                "--quiet",
                "--",
                str(self.root),
            ],
            env={**self.environ, "HOLDFAST_CRASH_AT": crash_at},
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def die(self, crash_at: str) -> None:
        """Run the job until it is killed at a step."""
        process = self.run(crash_at)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL, said

    def transactions(self, *args: str, of: str | None = None) -> subprocess.CompletedProcess[str]:
        """The command on the script, or on a job that runs."""
        command, *options = args
        target = (
            [str(self.script), *options, "--", str(self.root)] if of is None else [of, *options]
        )
        return subprocess.run(
            [*HOLDFAST, "transactions", command, *target],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def listed(self, of: str | None = None) -> dict[str, list[tuple[int, str]]]:
        """Checkpoints and owners of what is pending, by sink."""
        result = self.transactions("list", "--json", of=of)
        assert result.returncode == 0, result.stderr
        found: dict[str, list[tuple[int, str]]] = {}
        for each in json.loads(result.stdout)["transactions"]:
            found.setdefault(each["sink"], []).append((each["checkpoint"], each["owner"]))
        return found

    def rows(self) -> dict[str, list[int]]:
        """What each sink has made visible."""
        import pyarrow.parquet as pq

        files = [pq.read_table(f) for f in (self.root / "files").glob("*.parquet")]
        ahead = [json.loads(f.read_text()) for f in (self.root / "ahead").glob("*")]
        return {
            "shelf": self.shelf.rows(),
            "ahead": sorted(value for values in ahead for value in values),
            "files": sorted(v for table in files for v in table.column("value").to_pylist()),
        }


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for process in made.started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.1)
    return found


def test_transactions_of_killed_and_running_jobs_are_settled_and_every_row_comes_once(
    place: Place,
) -> None:
    # Killed when the sink had prepared and the checkpoint was not complete: nobody owns that.
    place.die("precommit/shelf:after#2")
    ((number, owner),) = place.listed()["shelf"]
    assert owner == "nobody"
    refused = place.transactions("commit", "--sink", "shelf")
    assert (refused.returncode, "they would be there twice" in refused.stdout) == (3, True)
    done = place.transactions("abort", "--sink", "shelf")
    assert (done.returncode, done.stdout) == (0, f"shelf, checkpoint {number}: aborted\n")
    assert place.shelf.numbers("pending") == []

    # Killed when the checkpoint was complete and nothing was committed: that owns all.
    place.die("commit:before")
    found = place.listed()
    ((number, owner),) = found["shelf"]
    assert found == {uid: [(number, "completed checkpoint")] for uid in ("shelf", "ahead", "files")}
    refused = place.transactions("abort", "--sink", "shelf")
    assert (refused.returncode, "would be lost" in refused.stdout) == (3, True)
    before = place.rows()
    done = place.transactions("commit")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"{uid}, checkpoint {number}: committed" for uid in ("ahead", "files", "shelf")
    ]
    assert done.stderr == ""
    after = place.rows()
    assert len(after["shelf"]) > len(before["shelf"])
    assert after["shelf"] == after["ahead"] == after["files"]
    assert set(place.listed()) <= {"ahead"}  # whose store alone knows

    # It runs, and the store is away.
    down = place.shelf.folder / "down"
    down.touch()
    process = place.run()

    def is_tried() -> bool:
        assert process.poll() is None, process.communicate()
        result = place.transactions("list", of="views")
        return "is being tried" in result.stdout

    wait_for(is_tried)
    assert place.listed(of="views")["shelf"] == place.listed()["shelf"]
    info = subprocess.run(
        [*HOLDFAST, "info", "views"], env=place.environ, capture_output=True, text=True, check=True
    )
    assert "shelf: waiting to commit checkpoint" in info.stdout
    assert "failed: the shelf is down" in info.stdout
    failed = place.transactions("commit", of="views")
    assert (failed.returncode, "the shelf is down" in failed.stdout) == (4, True)
    assert place.transactions("abort", of="views").returncode == 2
    down.unlink()
    done = place.transactions("commit", "--sink", "shelf", of="views")
    assert (done.returncode, "committed" in done.stdout) == (0, True), done

    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    everything = list(range(ROWS))
    assert place.rows() == {"shelf": everything, "ahead": everything, "files": everything}
    assert place.listed() == {}
