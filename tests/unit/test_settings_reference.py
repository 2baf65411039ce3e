from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from holdfast.settings import OPTIONS
from holdfast.settings.known import option_of
from holdfast.settings.reference import markdown
from holdfast.settings.refused import REFUSED
from tests.unit.test_settings import settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m holdfast.settings > docs/settings.md"


def test_the_page_is_what_the_module_prints_and_needs_no_pyspark() -> None:
    program = (
        "import runpy, sys; sys.modules['pyspark'] = None;"
        "runpy.run_module('holdfast.settings', run_name='__main__')"
    )
    printed = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", program], capture_output=True, check=True
    )
    assert printed.stdout.decode() == markdown()


def test_the_example_file_of_the_page_is_a_good_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", markdown(), re.DOTALL)
    file = tmp_path / "holdfast.toml"
    file.write_text(example)
    assert settings(file=file).checkpointing.interval == 10


def test_every_key_and_spelling_stands_in_the_page_and_for_one_thing_only() -> None:
    spellings = [key for option in OPTIONS for key in (option.key, *option.old)]
    spellings += [refused.key for refused in REFUSED]
    assert len(set(spellings)) == len(spellings)
    assert all(f"`{key}`" in markdown() for key in spellings)
    assert not [refused.key for refused in REFUSED if option_of(refused.key)]


def test_a_refused_key_has_harmless_values_that_its_kind_can_read() -> None:
    for refused in REFUSED:
        assert all(refused.is_harmless(value) for value in refused.harmless), refused.key


def test_every_refused_key_is_found_by_its_own_entry() -> None:
    for refused in REFUSED:
        key = refused.key.replace("*", "anything")
        assert next(each for each in REFUSED if each.covers(key)) is refused
