"""A job under ``holdfast run``, supervisor and all, in a directory of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from holdfast.protocol.records import FailureRecord
from holdfast.runtime.failure_log import FOLDER, FailureLog
from holdfast.server.processes import process
from holdfast.server.registry import Registry, Runner
from tests.faults.jobs.process import JobProcess
from tests.faults.jobs.specs import JobSpec
from tests.faults.jobs.warm import ROOT, java_options

PATIENCE = 180.0

SCRIPT = """\
import json, sys
from pathlib import Path
from tests.faults.jobs.runner import build
from tests.faults.jobs.specs import from_dict

out = Path(sys.argv[1])
job = build(from_dict(json.loads((out / "spec.json").read_text())), out)
"""


class Supervised:
    """A job's directory, and everything that runs for it."""

    def __init__(self, root: Path, job: JobSpec, script: str = SCRIPT) -> None:
        self.root = root
        self.spec = job
        self.jobs = JobProcess(job, root)  # for its checkpoints
        (root / "job.py").write_text(script)
        self.registry = Registry(root / "home" / "jobs")
        self.log = root / "home" / "logs" / "job.log"
        self.environ = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT}/src",
            "JOB_JAVA": java_options(),
            "HOLDFAST_HOME": str(root / "home"),
            "TMPDIR": str(self._folder("scratch")),
            "SPARK_LOCAL_DIRS": str(self._folder("scratch")),
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def _folder(self, name: str) -> Path:
        (self.root / name).mkdir(exist_ok=True)
        return self.root / name

    def run(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "holdfast.cli", "run", "job.py", *options]
        with self.sink("out") as out, self.sink("err") as err:
            process = subprocess.Popen(
                [*command, "--", str(self.root)],
                env=self.environ,
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self.started.append(process)
        return process

    def sink(self, name: str) -> IO[bytes]:
        """Where its output goes."""
        return (self.root / name).open("ab")

    def holdfast(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast.cli", *args]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def json(self, *args: str) -> Any:
        result = self.holdfast(*args, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    # What happens

    def wait_for(self, look: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (found := look()):
            assert time.monotonic() < deadline, self.words()
            time.sleep(0.05)
        return found

    def runner(self, other_than: Runner | None = None) -> Runner:
        """Wait for a runner that can be talked to."""
        before = other_than.process if other_than else None

        def look() -> Runner | None:
            assert self.started[-1].poll() is None, self.words()
            found = self.registry.running()
            return next((r for r in found if r.url and r.process != before), None)

        reached: Runner = self.wait_for(look)
        return reached

    def next_checkpoint(self) -> None:
        """Wait for a checkpoint that has more than the last one."""
        before = self._cut()
        self.wait_for(lambda: self._cut() > before)

    def _cut(self) -> int:
        cuts = [region.cut for each in self.jobs.checkpoints() for region in each.regions]
        return max(cuts, default=-1)

    def end(self, running: subprocess.Popen[bytes]) -> int:
        try:
            return running.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.words()) from None

    def words(self) -> str:
        files = [self.root / "out", self.root / "err", self.log]
        texts = [(f.name, f.read_text(errors="replace")[-4000:]) for f in files if f.exists()]
        return "\n".join(f"{name}:\n{text}" for name, text in texts)

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.root / "out").read_text().splitlines()
        return [item for item in map(json.loads, lines) if item["event"] == kind]

    def failures(self) -> list[FailureRecord]:
        (folder,) = self.root.glob(f"history/*/{FOLDER}")
        return FailureLog(str(folder.parent)).all()

    def processes(self) -> list[int]:
        """Everything that was started for this job and still runs."""
        mark = f"HOLDFAST_HOME={self.root / 'home'}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0") and process(int(path.parent.name)):
                    found.append(int(path.parent.name))
        return found

    def kill_everything(self) -> None:
        """``kill -9`` until nothing is left."""
        while left := self.processes():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for started in self.started:
                started.poll()
