"""A job in a process of its own, to be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.checkpoints.metadata import CheckpointMetadata, decode
from holdfast.errors import FileMissing
from holdfast.storage import open_storage
from tests.faults.jobs.specs import JobSpec
from tests.faults.jobs.warm import java_options

ROOT = Path(__file__).parents[3]
_PATIENCE = 180.0
_ANOTHER_MACHINE = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"']


class JobProcess:
    """Starts a job again and again in one directory."""

    module = "tests.faults.jobs.runner"

    def __init__(self, spec: JobSpec, out: Path) -> None:
        self.spec = spec
        self.out = out
        out.mkdir(parents=True, exist_ok=True)
        self._spec_file = out / "spec.json"
        self._spec_file.write_text(json.dumps(spec.to_dict()))
        self._said = out / "said.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        crash_at: str | None = None,
        restore: str | None = None,
        settings: Mapping[str, str] | None = None,
        machine: str | None = None,
    ) -> None:
        """``machine``: as if it were another one, which shares nothing but the directory."""
        more = dict(settings or {})
        if restore is not None:
            more["execution.state-recovery.path"] = restore
        command = [
            sys.executable,
            "-m",
            self.module,
            str(self._spec_file),
            str(self.out),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT}/src",
            "JOB_JAVA": java_options(),
            "HOLDFAST_HOME": str(self.out / f"home{machine or ''}"),
            "TMPDIR": str(self._scratch()),
            "SPARK_LOCAL_DIRS": str(self._scratch()),
        }
        if crash_at is not None:
            environment["HOLDFAST_CRASH_AT"] = crash_at
        if machine is not None:
            command = [*_ANOTHER_MACHINE, machine, *command]
            # Where Spark finds keys of S3 it wants to know the address of the machine: it has none.
            environment = {k: v for k, v in environment.items() if not k.startswith("AWS_")}
        with self._said.open("ab") as said:
            self.process = subprocess.Popen(
                [*command, *(f"{key}={value}" for key, value in more.items())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def _scratch(self) -> Path:
        scratch = self.out / "scratch"
        scratch.mkdir(exist_ok=True)
        return scratch

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process is not None and self.process.poll() is None

    @property
    def ended_well(self) -> bool:
        """Whether the job has come to its end."""
        return self.process is not None and self.process.poll() == 0

    def wait(self) -> int:
        """Its exit code; ``-9`` if it was killed."""
        assert self.process is not None
        try:
            return self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill_group()
            raise AssertionError(f"the job did not end:\n{self.words()}") from None

    def kill(self) -> None:
        """``kill -9`` of the Python process; its JVM notices by itself, a little later."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def kill_group(self) -> None:
        """``kill -9`` of everything, as when the machine dies."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> None:
        """Wait for a good end."""
        code = self.wait()
        assert code == 0, self.words()

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Whether the condition came true before the process ended."""
        assert self.process is not None
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if condition():
                return True
            if self.process.poll() is not None:
                return condition()
            time.sleep(0.02)
        raise AssertionError(f"waited too long:\n{self.words()}")

    def words(self) -> str:
        """The end of what it said, for messages."""
        return "\n".join(self.everything_said().splitlines()[-60:])

    def everything_said(self) -> str:
        """Since the first start, by all processes that have the directory in common."""
        return self._said.read_text(errors="replace")

    @property
    def _kept(self) -> str:
        chosen = self.spec.settings.get("execution.checkpointing.dir")
        return str(chosen or self.out / "checkpoints")

    def checkpoints(self) -> list[CheckpointMetadata]:
        """Completed checkpoints, oldest first."""
        storage = open_storage(self._kept)
        found = []
        for info in storage.list():
            if info.path.endswith("/_metadata"):
                with suppress(FileMissing):
                    found.append(decode(storage.read(info.path), info.path))
        return sorted(found, key=lambda metadata: metadata.id)

    @property
    def job_id(self) -> str:
        """As its working directory knows it."""
        return str(json.loads((self.out / "work/job/job").read_text())["id"])

    def path_of(self, metadata: CheckpointMetadata) -> str:
        return f"{self._kept}/{metadata.job_id}/chk-{metadata.id}"
