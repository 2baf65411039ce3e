"""Which failures are of which class: rules that users add to those that are built in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from holdfast.errors import UsageError
from holdfast.settings.values import Kind, folded


class FailureClass(Enum):
    """What can be done about a failure."""

    NON_RECOVERABLE = "NonRecoverable"
    """It would happen again: the job fails at once."""
    PARTITION_DATA_MISSING = "PartitionDataMissing"
    """Data that a restart needs are gone: only a checkpoint has another copy."""
    ENVIRONMENT = "Environment"
    """A machine, a disk or a process gave out: a restart, elsewhere if possible."""
    RECOVERABLE = "Recoverable"
    """A restart may help."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A failure with a cause to which all of this applies is of this class.

    ``type`` is the name of a Java or Python class, whole or its last part, with ``*`` for any text.
    ``condition`` is one of Spark's, or ``A.*`` for ``A`` and all below it. ``text`` is a regular
    expression that is searched in the message.
    """

    kind: FailureClass
    type: str | None = None
    condition: str | None = None
    text: str | None = None
    why: str = ""

    def __post_init__(self) -> None:
        if not (self.type or self.condition or self.text):
            raise UsageError(
                "a failure rule says nothing about the failure",
                hint="Give it a type, a condition or a text.",
            )
        try:
            re.compile(self.text or "")
        except re.error as error:
            raise UsageError(
                f"the text of a failure rule is no regular expression: {error}",
                hint="Put a backslash before characters that are meant as they are.",
                text=self.text,
            ) from error


_PARTS = r"(?:type|condition|text)\s*="
# A text may hold ";" and ",": only what looks like the next rule or the next part ends it.
_NEXT_RULE = re.compile(rf";\s*(?=[\w-]+\s*:\s*{_PARTS})|;\s*$")
_NEXT_PART = re.compile(rf",\s*(?={_PARTS})")
_TYPE = re.compile(r"[\w.$*]+")
_CONDITION = re.compile(r"[A-Z0-9_]+(\.[A-Z0-9_]+)*(\.\*)?")
_CLASSES = {kind.value.lower(): kind for kind in FailureClass}
_EXPECTED = (
    'must be rules such as "Environment: type=java.net.*, text=no route", separated by ";", of the '
    f"classes {', '.join(kind.value for kind in FailureClass)}"
)


def read_rules(text: str) -> tuple[Rule, ...]:
    """Rules as they stand in settings."""
    return tuple(_rule(each) for each in _NEXT_RULE.split(text.strip()) if each.strip())


def _rule(text: str) -> Rule:
    name, _, rest = text.partition(":")
    kind = _CLASSES.get(folded(name).replace("-", ""))
    if kind is None:
        raise ValueError(f"{_EXPECTED}; {name.strip()!r} is none of them")
    parts = _parts(rest)
    try:
        return Rule(kind, **parts, why=f"holdfast.failure-rules says so ({text.strip()})")
    except UsageError as error:
        raise ValueError(f"is wrong: {error.message}") from error


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in _NEXT_PART.split(text.strip()):
        name, _, value = (each.strip() for each in part.partition("="))
        if name not in {"type", "condition", "text"} or not value or name in parts:
            raise ValueError(f"{_EXPECTED}; {part.strip()!r} cannot be read")
        parts[name] = value
    _check(parts)
    return parts


def _check(parts: dict[str, str]) -> None:
    if "type" in parts and not _TYPE.fullmatch(parts["type"]):
        raise ValueError(f"is wrong: {parts['type']!r} is not the name of a class")
    if "condition" in parts and not _CONDITION.fullmatch(parts["condition"]):
        raise ValueError(f"is wrong: {parts['condition']!r} is not one of Spark's conditions")


RULES = Kind("list of rules", read_rules)
