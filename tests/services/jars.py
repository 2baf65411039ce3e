"""What Maven brings; where it cannot, tests that need it are skipped, or fail in CI."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import EnvironmentProblem
from holdfast.testing.maven import NoMaven
from tests.services.debian import installed
from tests.services.processes import missing

T = TypeVar("T")


def brought(bring: Callable[[], T]) -> T:
    """What ``bring`` returns; Maven is installed if need be."""
    try:
        return _with_maven(bring)
    except EnvironmentProblem as error:
        missing(str(error))


def _with_maven(bring: Callable[[], T]) -> T:
    try:
        return bring()
    except NoMaven:
        installed(lambda: shutil.which("mvn"), "maven", "Maven to bring a server's jars")
        return bring()
