"""``examples/page_views_kafka`` for real: whole, interrupted, and where it cannot run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.kafka import broker_jars
from tests.faults.jobs.runner import QUICK_JAVA
from tests.services.jars import brought
from tests.services.kafka_connector import connector_jars
from tests.services.processes import wait_until

FOLDER = Path(__file__).parents[2] / "examples" / "page_views_kafka"
VIEWS = 15_000
"""Many batches: a busy machine must not count them all before the first checkpoint is sent."""
COMMAND = [sys.executable, str(FOLDER / "run.py"), "--views", str(VIEWS), "--seconds", "5"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """All temporary files go to ``tmp_path``."""
    connector_jars()
    brought(broker_jars)
    return {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "COLUMNS": "100",
        "JDK_JAVA_OPTIONS": QUICK_JAVA,
    }


def processes_of(directory: Path) -> Iterator[int]:
    """Processes that were started with a path below ``directory``."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if str(directory).encode() in words:
            yield int(folder.name)


@pytest.mark.timeout(1800)
def test_the_example_survives_a_kill_counts_every_view_once_and_cleans_up(
    environ: dict[str, str], tmp_path: Path
) -> None:
    ended = subprocess.run(COMMAND, env=environ, capture_output=True, text=True, check=False)
    told = ended.stdout
    assert ended.returncode == 0, told + ended.stderr
    before, killed, after = told.partition("3. kill -9 of the job's process")
    assert killed
    seen = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) counted:", told)]
    assert seen == sorted(set(seen)), "what was visible was taken back"
    assert 0 < seen[0] < VIEWS == seen[-1]
    assert "counted:" in before
    assert "supervisor: the runner was killed by SIGKILL; restart 1 in 1.0 s" in after
    assert len(re.findall(r"^(?:mail|maps|news|shop) .* right$", after, re.MULTILINE)) == 4
    assert "0 of them out of order or twice" in after
    assert told.endswith("Each page view counts once, each count was sent once.\n")
    assert "Traceback" not in told + ended.stderr
    assert list(processes_of(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_broker_job_and_producer_and_leaves_nothing(
    environ: dict[str, str], tmp_path: Path
) -> None:
    example = subprocess.Popen(
        COMMAND, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    runner_is_there = "holdfast-page-views-*/home/jobs/*.json"
    wait_until(lambda: any(tmp_path.glob(runner_is_there)) or example.poll() is not None, "a job")
    example.send_signal(signal.SIGINT)
    _, said = example.communicate(timeout=120)
    assert example.returncode == 130, said
    assert "Traceback" not in said
    assert list(processes_of(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", ["run.py", "broker.py"])
def test_without_maven_and_jars_it_says_what_to_install(script: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(FOLDER / script)],
        env={**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode != 0
    assert ended.stderr.startswith("error ENVIRONMENT: there is no mvn on the PATH")
    assert "apt-get install maven" in ended.stderr
    assert "Traceback" not in ended.stderr
