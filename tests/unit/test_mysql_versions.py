"""Servers that would forget a prepared transaction are refused before the first row."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import UsageError
from holdfast.sinks.mysql.tables import check_server
from holdfast.sinks.mysql.versions import product_and_version


class Greeting:
    """A connection whose server answers with its version, and has no other settings to tell."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._answer: list[tuple[str, ...]] = []

    def cursor(self) -> Greeting:
        return self

    def __enter__(self) -> Greeting:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, statement: str, values: Any) -> None:
        self._answer = [(self._version,)] if "version()" in statement else []

    def fetchall(self) -> list[tuple[str, ...]]:
        return self._answer


@pytest.mark.parametrize(
    ("text", "product", "version"),
    [
        ("5.5.5-10.3.39-MariaDB-log", "MariaDB", (10, 3, 39)),
        ("10.11.6-MariaDB-0+deb12u1", "MariaDB", (10, 11, 6)),
        ("11.4.2-mariadb", "MariaDB", (11, 4, 2)),
        ("8.0.36", "MySQL", (8, 0, 36)),
        ("5.7.44-log", "MySQL", (5, 7, 44)),
        ("8.0.36-28.1", "MySQL", (8, 0, 36)),
    ],
)
def test_a_version_is_read(text: str, product: str, version: tuple[int, int, int]) -> None:
    assert product_and_version(text) == (product, version)


@pytest.mark.parametrize(
    "text",
    ["10.5.2-MariaDB", "5.5.5-10.5.2-MariaDB", "10.11.6-MariaDB-0+deb12u1", "5.7.7", "8.4.0"],
)
def test_a_server_that_keeps_what_was_prepared_is_taken(text: str) -> None:
    check_server(Greeting(text))


@pytest.mark.parametrize(
    "text",
    ["5.5.5-10.3.39-MariaDB-log", "10.5.1-MariaDB", "10.4.32-MariaDB", "5.7.6-m16", "5.6.51"],
)
def test_a_server_that_forgets_what_was_prepared_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is too old") as told:
        check_server(Greeting(text))
    assert told.value.ids["version"] == text
    assert "MariaDB 10.5.2, MySQL 5.7.7" in (told.value.hint or "")


def test_a_server_that_does_not_tell_its_version_is_refused() -> None:
    with pytest.raises(UsageError, match="version that is not known"):
        check_server(Greeting("proxy"))
