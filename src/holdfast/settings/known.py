"""Every key that Holdfast has something to say about, under each of its spellings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from holdfast.settings.failing import FAILURE_OPTIONS
from holdfast.settings.options import JOB_OPTIONS, Option
from holdfast.settings.refused import REFUSED
from holdfast.settings.rocksdb import ROCKSDB_OPTIONS

ENVIRONMENT_PREFIX = "HOLDFAST_"
# Read elsewhere, and no settings of a job.
RESERVED_VARIABLES = frozenset(
    f"{ENVIRONMENT_PREFIX}{name}"
    for name in ("HOME", "CONFIG", "CRASH_AT", "CRASH_GROUP", "TOKEN", "DEBUG")
)

OPTIONS: tuple[Option[Any], ...] = (*JOB_OPTIONS, *FAILURE_OPTIONS, *ROCKSDB_OPTIONS)

_BY_SPELLING = {key: option for option in OPTIONS for key in (option.key, *option.old)}


def option_of(key: str) -> Option[Any] | None:
    """The option with this key, current or old."""
    return _BY_SPELLING.get(key)


def rank_of(key: str) -> int:
    """0 for a current key, more for older spellings: the lowest counts, as in Flink."""
    option = _BY_SPELLING[key]
    return (option.key, *option.old).index(key)


def variable_of(key: str) -> str:
    """The environment variable of a key; ``holdfast.`` is not said twice."""
    return _variable(key.removeprefix("holdfast."))


def key_of(variable: str) -> str | None:
    """The key that a variable stands for, if it is one that is known."""
    return _BY_VARIABLE.get(variable) or _refused_below(variable)


def nearest_key(key: str) -> str | None:
    """The known key that looks most like this one."""
    return _nearest(key, [*_BY_SPELLING, *_REFUSED_KEYS])


def nearest_variable(variable: str) -> str | None:
    """The known variable that looks most like this one."""
    return _nearest(variable, [variable_of(key) for key in (*_BY_SPELLING, *_REFUSED_KEYS)])


def _nearest(name: str, names: Iterable[str]) -> str | None:
    # Keys share long prefixes, so that at a low cutoff anything would look like anything.
    return next(iter(get_close_matches(name, list(names), n=1, cutoff=0.75)), None)


def _variable(key: str) -> str:
    return ENVIRONMENT_PREFIX + re.sub(r"[^A-Z0-9]", "_", key.upper())


def _refused_below(variable: str) -> str | None:
    for refused in REFUSED:
        if refused.key.endswith("*") and variable.startswith(_variable(refused.key[:-1])):
            return refused.key
    return None


_REFUSED_KEYS = [refused.key for refused in REFUSED if not refused.key.endswith("*")]
_BY_VARIABLE = {
    name: key
    for key in (*_BY_SPELLING, *_REFUSED_KEYS)
    for name in (_variable(key), variable_of(key))
}
