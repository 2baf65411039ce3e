"""What the documentation shows is run as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compat.samples import NEWEST, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SHOWN = "/data/checkpoints"
PAGES = ("README.md", "docs/querylog.md")


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the query log that the documentation speaks of."""
    unpack(f"{NEWEST}/aggregation.rocksdb-2-changelog", tmp_path).rename(tmp_path / "orders")
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_python_snippets_run(page: str, place: Path, spark: SparkSession) -> None:
    names: dict[str, object] = {"spark": spark}
    for code in _blocks(page, "python"):
        exec(compile(_here(code, place), page, "exec"), names)


@pytest.mark.parametrize("page", PAGES)
def test_commands_run(page: str, place: Path, spark: SparkSession) -> None:
    from typer.testing import CliRunner

    from holdfast.cli.app import app

    lines = [line for block in _blocks(page, "console") for line in block.splitlines()]
    commands = [
        shlex.split(_here(line, place), comments=True)[2:]
        for line in lines
        if "holdfast log" in line
    ]
    assert commands
    for command in commands:
        outcome = CliRunner().invoke(app, command)
        assert outcome.exit_code == 0, (command, outcome.output)


def _here(text: str, place: Path) -> str:
    # The saved query log counts rows per key in five batches.
    return (
        text.replace(SHOWN, str(place))
        .replace("batch=41", "batch=3")
        .replace("--batch 41", "--batch 3")
        .replace("key.customer = 'C7'", "key.k = 'steady'")
    )


@pytest.mark.parametrize(
    "page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/querylog.md", "docs/kafka.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert (folder / target).exists(), target
