"""The page of Flink's scenarios names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"u": "unit", "p": "property", "s": "spark", "f": "faults"}


def test_every_test_on_the_page_exists() -> None:
    page = (ROOT / "docs" / "flink-scenarios.md").read_text()
    file = None
    found = 0
    for folder, name, test in re.findall(r"`(?:([upsf])/(test_\w+\.py))?(?:::(test_\w+))?`", page):
        if folder:
            file = ROOT / "tests" / FOLDERS[folder] / name
            assert file.is_file(), file
        if test:
            assert file is not None
            assert f"def {test}(" in file.read_text(), (file, test)
            found += 1
    assert found > 50
