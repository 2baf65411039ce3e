"""Jars from Maven's repositories, brought by ``mvn`` and kept in the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from holdfast.errors import EnvironmentProblem

_TAIL = 1000


class NoMaven(EnvironmentProblem):
    """There is no ``mvn``."""


def jar(artifact: str) -> Path:
    """One jar, ``group:name:version``, without those it needs."""
    _, name, version = artifact.split(":")
    place = cache() / "jars" / f"{name}-{version}.jar"
    if not place.exists():
        with _beside(place) as made:
            _mvn("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={made}")
            _move(Path(made) / place.name, place)
    return place


def jars(name: str, artifacts: Iterable[str]) -> Path:
    """A directory of that name with these jars and all that they need."""
    place = cache() / "jars" / name
    if not place.exists():
        with _beside(place) as made:
            (Path(made) / "pom.xml").write_text(_pom(artifacts))
            brought = Path(made) / "jars"
            _mvn(
                *("-f", f"{made}/pom.xml", "dependency:copy-dependencies"),
                *("-DincludeScope=runtime", f"-DoutputDirectory={brought}"),
            )
            _move(brought, place)
    return place


def cache() -> Path:
    """Where things are kept from run to run."""
    base = os.environ.get("XDG_CACHE_HOME")
    # The specification says to ignore a relative one.
    home = Path(base) if base and base.startswith("/") else Path.home() / ".cache"
    return home / "holdfast"


def _beside(place: Path) -> tempfile.TemporaryDirectory[str]:
    """On the same disk: what is whole can then be moved to its place at once."""
    place.parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=place.parent, prefix=".")


def _move(made: Path, place: Path) -> None:
    try:
        made.rename(place)
    except OSError:
        if not place.exists():  # else another process was quicker
            raise


def _mvn(*arguments: str) -> None:
    program = shutil.which("mvn")
    if program is None:
        raise NoMaven(
            "there is no mvn on the PATH to bring the jars",
            hint="Install Maven (Debian and Ubuntu: apt-get install maven; macOS: brew install "
            "maven) and try again.",
        )
    command = [program, "-q", "-B", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentProblem(
            f"Maven did not bring the jars: {' '.join(arguments)}",
            hint="Can it reach a repository (~/.m2/settings.xml names others)? It said:\n"
            f"{(done.stdout + done.stderr)[-_TAIL:]}",
        )


def _pom(artifacts: Iterable[str]) -> str:
    return _POM.format(dependencies="".join(map(_dependency, artifacts)))


def _dependency(artifact: str) -> str:
    group, name, version = artifact.split(":")
    return _DEPENDENCY.format(group=group, name=name, version=version)


_DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
    "<version>{version}</version></dependency>"
)
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>holdfast</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies>
</project>
"""
