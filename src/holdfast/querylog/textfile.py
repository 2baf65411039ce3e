"""Text files that begin with a version line, as Spark's metadata logs do."""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.errors import DamagedFile, UnknownFormat

_VERSION = re.compile(r"v(\d+)\Z")


def split_version(data: bytes, path: str, known: tuple[int, ...]) -> tuple[int, list[str]]:
    """The version, if it is one of ``known``, and the lines below it."""
    try:
        first, *lines = data.decode("utf-8").split("\n")
    except UnicodeError as cause:
        raise DamagedFile("file is not text", path=path) from cause
    match = _VERSION.match(first.strip())
    if match is None:
        raise DamagedFile(
            "file does not begin with a version line" if data else "file is empty", path=path
        )
    version = int(match[1])
    if version not in known:
        raise UnknownFormat(
            f"version v{version} of this file is not known",
            hint=f"Known: {', '.join(f'v{v}' for v in known)} (Spark 4.3). "
            "The query log was written by another release of Spark.",
            path=path,
        )
    return version, lines


def parse_object(text: str, path: str) -> dict[str, Any]:
    """One JSON object."""
    try:
        value = json.loads(text)
    except ValueError as cause:
        raise DamagedFile(f"file does not hold valid JSON: {cause}", path=path) from cause
    if not isinstance(value, dict):
        raise DamagedFile("file holds JSON, but not an object", path=path)
    return value


def object_line(lines: list[str], path: str) -> dict[str, Any]:
    """The JSON object on the first of ``lines``."""
    if not lines:
        raise DamagedFile("file ends behind its version line", path=path)
    return parse_object(lines[0], path)


def to_json(value: Any) -> str:
    """JSON as compact as Spark writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
