"""Where settings come from: each source as one layer of keys and texts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.settings.known import (
    ENVIRONMENT_PREFIX,
    RESERVED_VARIABLES,
    key_of,
    nearest_variable,
)
from holdfast.settings.problems import Problem
from holdfast.settings.values import as_text

ARGUMENT = "argument"
ENVIRONMENT = "environment"
CODE = "code"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Entry:
    """One key as it was given."""

    key: str
    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says, and what in it could not be read."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = field(default=())


def layer_of(values: Mapping[str, object], origin: str) -> Layer:
    """Arguments, or what the job's code says; None is as good as not said."""
    return _layer(((key, value) for key, value in values.items() if value is not None), origin)


def layer_of_environment(environ: Mapping[str, str]) -> Layer:
    """Every ``HOLDFAST_`` variable. One that means nothing is a mistake, not a stranger."""
    entries, problems = [], []
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in RESERVED_VARIABLES:
            continue
        origin, key = f"{ENVIRONMENT} {variable}", key_of(variable)
        if key is None:
            problems.append(Problem(variable, ENVIRONMENT, _unknown(variable), environ[variable]))
        else:
            entries.append(Entry(key, environ[variable], origin))
    return Layer(tuple(entries), tuple(problems))


def _unknown(variable: str) -> str:
    if variable.startswith(f"{ENVIRONMENT_PREFIX}SPARK_"):
        return "Spark's settings cannot come from the environment; use --set or holdfast.toml"
    nearest = nearest_variable(variable)
    return "stands for no key" + (f"; did you mean {nearest}?" if nearest else "")


def layer_of_file(path: Path) -> Layer:
    """A TOML file, with dotted keys in quotes or as tables."""
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        return _unreadable(path, f"cannot be read: {error.strerror or error}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return _unreadable(path, f"is not TOML: {error}")
    return _layer(_flat(tables, ""), str(path))


def _unreadable(path: Path, text: str) -> Layer:
    return Layer(problems=(Problem(str(path), "file", text),))


def _flat(tables: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _layer(pairs: Iterator[tuple[str, object]], origin: str) -> Layer:
    entries: dict[str, Entry] = {}
    problems = []
    for key, value in pairs:
        try:
            if key in entries:
                raise ValueError("is given twice, in quotes and as a table")
            entries[key] = Entry(key, as_text(value), origin)
        except ValueError as error:
            problems.append(Problem(key, origin, str(error), str(value)))
    return Layer(tuple(entries.values()), tuple(problems))
