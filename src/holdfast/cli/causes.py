"""What a region failed of, without the stacks around it."""

from __future__ import annotations

import re

_JAVA = re.compile(r"\s+at |\s*\.\.\. \d+ (?:more|elided)|Caused by: |\s+Suppressed: ")
_TRACEBACK = "Traceback (most recent call last):"
_LINES_KEPT = 8


def essence(message: str) -> str:
    """The innermost Python error with its frames; without one, the first lines."""
    lines = [line for line in message.splitlines() if not _JAVA.match(line)]
    begins = [at for at, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if not begins:
        return "\n".join(lines[:_LINES_KEPT]).strip()
    frames, error = _innermost(lines[begins[-1] + 1 :])
    if error is None:
        return "\n".join(lines[:_LINES_KEPT]).strip()
    what = message.partition(": ")[0]
    return "\n".join([f"{what}: {error}", *frames])


def _innermost(lines: list[str]) -> tuple[list[str], str | None]:
    """Frames are indented, and the error that follows them is not."""
    for at, line in enumerate(lines):
        if line and not line.startswith(" "):
            return lines[:at], line
    return lines, None
