"""What is wrong with settings, collected so that all of it is said at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import SettingsError

HIDDEN = "******"
_SECRET = re.compile(
    r"passw|secret|token|credential|(access|account|private|api).?key", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One wrong setting: which, what it was set to, where, and what is allowed."""

    key: str
    origin: str
    text: str
    value: str | None = None

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {shown(self.key, self.value)!r}"
        return f"{self.key}{value} ({self.origin}): {self.text}"


def shown(key: str, value: str) -> str:
    """The value as people may see it."""
    return HIDDEN if _SECRET.search(key) else value


def refuse(problems: Sequence[Problem]) -> None:
    """Raise one error that names every problem, if there is any."""
    if not problems:
        return
    lines = "".join(f"\n  - {problem}" for problem in problems)
    count = "a setting is" if len(problems) == 1 else f"{len(problems)} settings are"
    raise SettingsError(
        f"{count} wrong:{lines}", hint="`python -m holdfast.settings` lists every key."
    )
