"""``results.md``: sections that begin with ``## ``, each with the date on which it was measured.

A part that is measured replaces its own section. The others stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

HEAD = """\
# Measured by `make bench`

Each section was measured on the day that it names. The machine is shared and noisy: trust ratios.
"""
_BEGIN = re.compile(r"^(?=## )", re.MULTILINE)
_DATE = re.compile(r"^\d{4}-\d\d-\d\d, .*", re.MULTILINE)


def put(results: Path, section: str, stamp: str, order: Sequence[str]) -> None:
    """Write one section, measured just now, into the file; at its place if it is new."""
    before = results.read_text() if results.exists() else ""
    results.write_text(with_section(before, section, stamp, order))


def with_section(before: str, section: str, stamp: str, order: Sequence[str]) -> str:
    """The text of the file with that section in it; ``order`` has the titles."""
    found = _sections(before)
    found |= {title: _dated(text, stamp) for title, text in _sections(section).items()}
    known = [f"## {title}" for title in order if f"## {title}" in found]
    others = [title for title in found if title not in known]
    return "\n".join([HEAD, *(found[title].rstrip() + "\n" for title in [*known, *others])])


def _sections(text: str) -> dict[str, str]:
    head, *found = _BEGIN.split(text)
    sections = {each.partition("\n")[0]: each for each in found}
    if stamp := _DATE.search(head):  # one date for all that had none of its own
        return {title: _dated(each, _first_sentence(stamp[0])) for title, each in sections.items()}
    return sections


def _dated(section: str, stamp: str) -> str:
    """With the stamp under its title, unless it has one."""
    title, _, rest = section.partition("\n")
    rest = rest.lstrip("\n")
    return section if _DATE.match(rest) else f"{title}\n\n{stamp}\n\n{rest}"


def _first_sentence(line: str) -> str:
    return line.partition(". ")[0].rstrip(".") + "."
