"""The example of a sink: it survives a kill, and the documentation shows it as it is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from examples.own_sink import LinesSink
from pyspark import TaskContext

from holdfast.sinks import Epoch
from holdfast.sinks.distributed import Distributed
from tests.spark.line_stores import read_lines

ROOT = Path(__file__).parents[2]
ROWS = [{"value": number, "square": number * number} for number in range(2_000)]


def run(out: Path, crash_at: str = "") -> subprocess.CompletedProcess[str]:
    # A supervisor would start it again.
    holdfast = [sys.executable, "-m", "holdfast.cli", "run", "--no-supervisor"]
    command = [*holdfast, "examples/own_sink.py", "--", str(out)]
    environment = {**os.environ, "HOLDFAST_CRASH_AT": crash_at, "HOLDFAST_HOME": f"{out}/home"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def visible(out: Path) -> list[dict[str, Any]]:
    return sorted(read_lines(out / "lines"), key=lambda row: row["value"])


def test_the_example_killed_before_its_first_commit_goes_on_and_has_every_row_once(
    tmp_path: Path,
) -> None:
    killed = run(tmp_path, crash_at="commit/lines:before")
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    assert not visible(tmp_path)
    assert list((tmp_path / "lines").glob("_*"))
    ended = run(tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert visible(tmp_path) == ROWS
    assert not list((tmp_path / "lines").glob("_*"))


def test_a_batch_that_is_not_staged_is_computed_in_all_its_tasks_and_written_in_one(
    spark: Any, tmp_path: Path
) -> None:
    def computed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        for rows in batches:
            yield pa.RecordBatch.from_pydict({"value": [task.partitionId()] * rows.num_rows})

    batch = spark.range(0, 12, 1, 3).mapInArrow(computed, "value long")
    sink = LinesSink(str(tmp_path))
    sink.parallelism = 1
    epoch = Epoch("job", 1, "lines", 1, (), spark, batch.schema, batch)
    handle = Distributed(sink).pre_commit(epoch)
    (part,) = handle["parts"]
    sink.commit(part)
    assert {row["value"] for row in read_lines(tmp_path)} == {0, 1, 2}


def test_the_page_about_sinks_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "sinks.md").read_text()
    shown = re.findall(r"^```python\n(class LinesSink.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 1
    assert shown[0].rstrip() in (ROOT / "examples" / "own_sink.py").read_text()


def test_code_on_the_page_about_sinks_is_python_and_its_links_lead_somewhere() -> None:
    page = ROOT / "docs" / "sinks.md"
    text = page.read_text()
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        compile(block, str(page), "exec")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
