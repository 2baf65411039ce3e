"""Names: what a path inside a storage may look like, and how unfinished things are called."""

from __future__ import annotations

import re
import secrets

from holdfast.errors import UsageError

CLAIM = ".holdfast-0000000000000000"
"""The object that says who is writing below a prefix; nothing else is ever called so."""

_UNFINISHED = re.compile(r"\.(?:.*\.)?holdfast-[0-9a-f]{16}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # two letters at least: C:/ is a drive


def checked(path: str) -> str:
    """The path itself, if it names something below the root and nothing else.

    Paths also come out of files that others wrote (manifests, handles), so a ``..`` in one must not
    lead out of the directory that the caller meant.
    """
    if not all(part not in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        raise UsageError(
            "not a path inside a storage",
            hint="Use a relative path with single slashes and without '.' and '..'.",
            path=repr(path),
        )
    return path


def scheme_of(location: str) -> str | None:
    """``s3`` for ``s3://bucket/key``, ``None`` for a plain path."""
    found = _SCHEME.match(location)
    return found[1].lower() if found else None


def temporary_name() -> str:
    """A new name for a file that is being written."""
    return f".holdfast-{secrets.token_hex(8)}"


def staging_name(target: str) -> str:
    """A new name for the directory in which ``target`` is being built, right beside it."""
    return f".{target}{temporary_name()}"


def is_staging_of(name: str, target: str) -> bool:
    """Whether ``name`` was made by ``staging_name(target)``, in this process or another."""
    return is_unfinished(name) and name[: -len(temporary_name())] == f".{target}"


def is_unfinished(name: str) -> bool:
    """Whether ``name`` belongs to something that is still being written, or was when it died."""
    return _UNFINISHED.fullmatch(name) is not None
