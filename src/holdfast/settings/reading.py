"""From layers to values: the strongest layer wins, each value is read by its option."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from holdfast.settings.known import nearest_key, option_of, rank_of
from holdfast.settings.layers import DEFAULT, Entry, Layer
from holdfast.settings.options import Option
from holdfast.settings.problems import Problem
from holdfast.settings.refused import refusal_of, spark_refusal_of

T = TypeVar("T")

SPARK_PREFIX = "spark."


@dataclass(slots=True)
class Values:
    """What was found for each option. A value that could not be read counts as not given."""

    given: dict[str, Entry] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)
    spark: dict[str, Entry] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def get(self, option: Option[T]) -> T:
        """The value of an option that has a default."""
        value = self.find(option)
        if value is None:
            raise KeyError(option.key)
        return value

    def find(self, option: Option[T]) -> T | None:
        """The value, the default, or None."""
        default = None if option.default is None else option.read(option.default)
        value: T | None = self.read.get(option.key, default)
        return value

    def are_sound(self, *options: Option[Any]) -> bool:
        """Whether none of them was given something that cannot be read."""
        return all(o.key in self.read or o.key not in self.given for o in options)

    def complain(self, option: Option[Any], text: str) -> None:
        """Note a problem with what was given for an option."""
        entry = self.given.get(option.key)
        origin, value = (entry.origin, entry.text) if entry else (DEFAULT, option.default)
        self.problems.append(Problem(option.key, origin, text, value))


def read_layers(layers: Sequence[Layer]) -> Values:
    """Read layers, strongest first. A weaker layer's value is checked even where it loses."""
    values = Values()
    for layer in layers:
        values.problems.extend(layer.problems)
        for entry in _newest_spelling_first(layer.entries):
            _take(values, entry)
    return values


def _newest_spelling_first(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: rank_of(entry.key) if option_of(entry.key) else 0)


def _take(values: Values, entry: Entry) -> None:
    option = option_of(entry.key)
    if option is not None:
        _take_option(values, option, entry)
    elif entry.key.startswith(SPARK_PREFIX):
        _take_spark(values, entry)
    else:
        _take_none(values, entry)


def _take_option(values: Values, option: Option[Any], entry: Entry) -> None:
    first = option.key not in values.given
    values.given.setdefault(option.key, entry)
    try:
        value = option.read(entry.text)
    except ValueError as error:
        values.problems.append(Problem(entry.key, entry.origin, str(error), entry.text))
        return
    if first:
        values.read[option.key] = value


def _take_spark(values: Values, entry: Entry) -> None:
    instead = spark_refusal_of(entry.key)
    if instead is not None:
        text = f"is set by Holdfast; {instead}"
        values.problems.append(Problem(entry.key, entry.origin, text, entry.text))
    values.spark.setdefault(entry.key, entry)


def _take_none(values: Values, entry: Entry) -> None:
    refused = refusal_of(entry.key)
    if refused is not None and refused.is_harmless(entry.text):
        return
    if refused is not None:
        allowed = f"; allowed: {', '.join(refused.harmless)}" if refused.harmless else ""
        text = f"not supported; {refused.why}{allowed}"
    else:
        nearest = nearest_key(entry.key)
        text = "is not a key" + (f"; did you mean {nearest}?" if nearest else "")
    values.problems.append(Problem(entry.key, entry.origin, text, entry.text))
