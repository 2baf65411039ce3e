"""Which servers keep a prepared transaction when its connection ends.

Older ones roll it back then, and tell nobody: a commit that comes later finds the transaction
unknown, as if it had been committed before.
"""

from __future__ import annotations

import re

from holdfast.errors import UsageError

Version = tuple[int, int, int]

_MARIADB = re.compile(r"(\d+)\.(\d+)\.(\d+)-mariadb", re.IGNORECASE)
"""Behind the ``5.5.5-`` that MariaDB puts before it in its greeting."""
_MYSQL = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_SINCE: dict[str, Version] = {"MariaDB": (10, 5, 2), "MySQL": (5, 7, 7)}


def product_and_version(text: str) -> tuple[str, Version] | None:
    """Of what ``SELECT version()`` answers; ``None`` if it is not understood."""
    if found := _MARIADB.search(text):
        return "MariaDB", _numbers(found)
    if found := _MYSQL.match(text):
        return "MySQL", _numbers(found)
    return None


def refuse_forgetful(text: str) -> None:
    """Refuse a server that would forget what was prepared, and one of which that is not known."""
    known = product_and_version(text)
    if known is not None and known[1] >= _SINCE[known[0]]:
        return
    least = ", ".join(f"{name} {_dotted(since)}" for name, since in _SINCE.items())
    what = "is too old: it" if known is not None else "has a version that is not known, and perhaps"
    raise UsageError(
        f"the server {what} rolls a prepared transaction back when its connection ends, and every "
        "row would be lost",
        hint=f"It needs at least {least}. With an older one give the sink a key and "
        'delivery="idempotent".',
        version=text,
    )


def _numbers(found: re.Match[str]) -> Version:
    first, second, third = (int(part) for part in found.groups())
    return first, second, third


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
