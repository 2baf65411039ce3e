"""Jars by Maven: brought once, and told clearly if they cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import EnvironmentProblem
from holdfast.testing.maven import NoMaven, jar, jars

# Stands in for the program, which would need a repository: makes what it is asked for.
MVN = """\
#!/bin/sh
echo "$@" >> "{log}"
for word; do
  case "$word" in
    -Dartifact=*) artifact=${{word#-Dartifact=}} ;;
    -DoutputDirectory=*) out=${{word#-DoutputDirectory=}} ;;
  esac
done
mkdir -p "$out"
name=$(echo "${{artifact:-g:all:1}}" | cut -d: -f2-3 | tr : -)
echo jar > "$out/$name.jar"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing in its cache, and only this ``mvn``."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    write_mvn(tmp_path, MVN.format(log=tmp_path / "log"))
    return tmp_path


def write_mvn(place: Path, script: str) -> None:
    program = place / "bin" / "mvn"
    program.write_text(script)
    program.chmod(0o755)


def test_a_jar_is_brought_once(place: Path) -> None:
    first = jar("org.example:thing:1.2")
    assert first == place / "cache" / "holdfast" / "jars" / "thing-1.2.jar"
    assert first.read_text() == "jar\n"
    assert jar("org.example:thing:1.2") == first
    assert len((place / "log").read_text().splitlines()) == 1


def test_jars_with_what_they_need_are_brought_once(place: Path) -> None:
    first = jars("server-1", ["org.example:server:1", "org.example:tools:1"])
    assert [file.name for file in first.iterdir()] == ["all-1.jar"]
    assert jars("server-1", []) == first
    assert len((place / "log").read_text().splitlines()) == 1
    assert list(first.parent.iterdir()) == [first], "something is left beside them"


def test_a_machine_without_maven_is_told_how_to_get_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(NoMaven, match=r"no mvn on the PATH(?s:.*)apt-get install maven"):
        jar("org.example:thing:1.2")


def test_what_maven_says_is_told_and_nothing_is_kept(place: Path) -> None:
    write_mvn(place, "#!/bin/sh\necho 'Could not find artifact'\nexit 1\n")
    with pytest.raises(EnvironmentProblem, match=r"(?s)thing:1.2.*Could not find"):
        jar("org.example:thing:1.2")
    assert list((place / "cache" / "holdfast" / "jars").iterdir()) == []
