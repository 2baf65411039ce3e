"""Java's classes, loaded once and kept in an archive: a job then starts in half the time."""

from __future__ import annotations

import atexit
import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.jobs.specs import chain

ROOT = Path(__file__).parents[3]
_PATIENCE = 300.0
_QUIET = "-Xshare:auto -Xlog:disable"
C1_ONLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for seconds: its second compiler would use more time than it saves."""


def quick_java() -> str:
    """Options of any Java that has Spark's jars on its path."""
    return f"{C1_ONLY} {java_options()}"


@functools.cache
def java_options() -> str:
    """Options that use the archive; it is made when this is first called, once per test run."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    home = Path(tempfile.gettempdir()) / f"holdfast-classes-{run}"
    home.mkdir(exist_ok=True)
    archive = home / "classes.jsa"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "said.txt").exists():
            atexit.register(shutil.rmtree, home, ignore_errors=True)
            _make(home, archive)
    # Without an archive (another Java, a full disk) jobs start as slowly as ever.
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if archive.exists() else _QUIET


def _make(home: Path, archive: Path) -> None:
    spec = home / "spec.json"
    spec.write_text(json.dumps(chain(400).to_dict()))
    with (home / "said.txt").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.jobs.runner", str(spec), str(home / "job")],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}:{ROOT}/src",
                "HOLDFAST_HOME": str(home / "home"),
                "JOB_JAVA": f"-XX:ArchiveClassesAtExit={archive} {_QUIET}",
            },
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        process.wait(_PATIENCE)
    _wait_for_group(process.pid)


def _wait_for_group(group: int) -> None:
    """The archive is written when the JVM ends, which is not our child."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.05)
