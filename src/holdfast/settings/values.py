"""Values as text, read the way Flink reads them.

A reader turns text into a value or raises ``ValueError`` with a sentence that says what is
allowed; it fits behind "key = value: ".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import PurePath
from typing import Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

LARGEST_LONG = 2**63 - 1
LARGEST_INTEGER = 2**31 - 1
NANOS_PER_SECOND = 1_000_000_000

DURATION_UNITS = {
    ("ns", "nano", "nanos", "nanosecond", "nanoseconds"): 1,
    ("µs", "micro", "micros", "microsecond", "microseconds"): 1_000,
    ("ms", "milli", "millis", "millisecond", "milliseconds"): 1_000_000,
    ("s", "sec", "secs", "second", "seconds"): NANOS_PER_SECOND,
    ("m", "min", "minute", "minutes"): 60 * NANOS_PER_SECOND,
    ("h", "hour", "hours"): 3_600 * NANOS_PER_SECOND,
    ("d", "day", "days"): 86_400 * NANOS_PER_SECOND,
}
SIZE_UNITS = {
    ("b", "bytes"): 1,
    ("k", "kb", "kibibytes"): 2**10,
    ("m", "mb", "mebibytes"): 2**20,
    ("g", "gb", "gibibytes"): 2**30,
    ("t", "tb", "tebibytes"): 2**40,
}

_NANOS = {label: nanos for labels, nanos in DURATION_UNITS.items() for label in labels}
_BYTES = {label: size for labels, size in SIZE_UNITS.items() for label in labels}
_QUANTITY = re.compile(r"([0-9]{1,40})\s*(.*)", re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ISO_DURATION = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How the text of an option becomes a value."""

    name: str
    read: Callable[[str], T]


def as_text(value: object) -> str:
    """What a program or a TOML file gives, as it would be written on a command line."""
    if isinstance(value, Enum):
        return as_text(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float, PurePath)):
        return str(value)
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} micros"
    if isinstance(value, (list, tuple)):
        return ";".join(as_text(each) for each in value)
    raise ValueError("must be text, a number or a boolean")


def folded(text: str) -> str:
    """The one spelling of a name that may be written in any case, with ``-`` or ``_``."""
    return text.strip().lower().replace("_", "-")


def read_duration(text: str) -> float:
    """Seconds."""
    nanos = _duration_nanos(text.strip())
    if nanos > LARGEST_LONG * NANOS_PER_SECOND:
        raise ValueError("is longer than Flink and Holdfast can count")
    return nanos / NANOS_PER_SECOND


def _duration_nanos(text: str) -> int:
    quantity = _QUANTITY.fullmatch(text)
    if quantity is None:
        return _iso_nanos(text)
    unit = _NANOS.get(quantity[2].lower() or "ms")
    if unit is None:
        raise ValueError(_DURATION_EXPECTED)
    return int(quantity[1]) * unit


def _iso_nanos(text: str) -> int:
    iso = _ISO_DURATION.fullmatch(text)
    if iso is None or not any(iso.groups()):
        raise ValueError(_DURATION_EXPECTED)
    days, hours, minutes, seconds = (int(each or 0) for each in iso.groups()[:4])
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole * NANOS_PER_SECOND + int((iso[5] or "").ljust(9, "0"))


def read_size(text: str) -> int:
    """Bytes; 1 kb is 1024 bytes."""
    quantity = _QUANTITY.fullmatch(text.strip())
    unit = _BYTES.get(quantity[2].lower() or "b") if quantity else None
    if quantity is None or unit is None:
        raise ValueError('must be a size: a whole number and b, kb, mb, gb or tb, such as "20 kb"')
    size = int(quantity[1]) * unit
    if size > LARGEST_LONG:
        raise ValueError("is more bytes than a 64-bit number can count")
    return size


def read_boolean(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    if folded(text) not in {"true", "false"}:
        raise ValueError("must be true or false")
    return folded(text) == "true"


def read_integer(text: str) -> int:
    """A whole number of 32 bits."""
    if not _INTEGER.fullmatch(text.strip()) or abs(int(text)) > LARGEST_INTEGER:
        raise ValueError("must be a whole number")
    return int(text)


def read_number(text: str) -> float:
    """A decimal number."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError("must be a number")
    return float(text)


def read_text(text: str) -> str:
    """Any text but none."""
    if not text.strip():
        raise ValueError("is empty")
    return text.strip()


def one_of(choices: type[E]) -> Kind[E]:
    """The kind of an option with named values."""
    by_name = {folded(str(choice.value)): choice for choice in choices}
    listed = ", ".join(f"`{name}`" for name in by_name)

    def read(text: str) -> E:
        if folded(text) not in by_name:
            raise ValueError(f"must be one of {listed.replace('`', '')}")
        return by_name[folded(text)]

    return Kind(listed, read)


_DURATION_EXPECTED = (
    "must be a duration: a whole number and ns, µs, ms, s, min, h or d (milliseconds without a "
    'unit), such as "10 s"'
)

DURATION = Kind("duration", read_duration)
SIZE = Kind("size", read_size)
BOOLEAN = Kind("boolean", read_boolean)
INTEGER = Kind("integer", read_integer)
NUMBER = Kind("number", read_number)
TEXT = Kind("text", read_text)
