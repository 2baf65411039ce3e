"""The examples run, and their own judgement is good."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.jobs.runner import QUICK_JAVA
from tests.faults.jobs.warm import java_options

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.timeout(900)
def test_the_page_view_walk_through_shows_what_each_mode_promises() -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "page_views_modes.py")],
        env={**os.environ, "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} {java_options()}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    modes = re.split(r"== (.*) ==", ended.stdout)[1:]
    told = dict(zip(modes[::2], modes[1::2], strict=True))
    assert set(told) == {"exactly-once", "at-least-once", "unaligned"}
    assert all(story.rstrip().endswith("as expected") for story in told.values()), ended.stdout
    assert "were counted twice" in told["at-least-once"], "nothing was read behind a barrier"
    assert "counted twice" not in told["exactly-once"] + told["unaligned"]
    assert "segments in flight" in told["unaligned"]
