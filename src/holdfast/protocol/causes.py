"""Of which class a failure is, by its causes, and why, in words.

Spark tells little of a failure as data and much as text: all that foreachBatch wraps, all that
happened in a task or in a Python worker. So conditions and exceptions are looked for in the text of
every cause as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from holdfast.errors import Cause
from holdfast.protocol.signs import SIGNS, Sign
from holdfast.settings import FailureClass, Rule

__all__ = ["Cause", "Classified", "FailureClass", "Rule", "classify"]


@dataclass(frozen=True, slots=True)
class Classified:
    """The class of a failure, a sentence for people, and the cause that told it."""

    kind: FailureClass
    why: str
    cause: Cause
    outside: bool = False
    """What is missing was never ours: going back to a checkpoint does not bring it back."""
    others: bool = False
    """Somebody else has written where only the job may."""


# Spark's conditions have an underscore; without one, any word in brackets would do.
_CONDITION = re.compile(r"\[([A-Z0-9]+_[A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_SQL_STATE = re.compile(r"\bSQLSTATE: ([0-9A-Z]{5})\b")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?", re.DOTALL)
_QUALIFIED = re.compile(r"\b((?:[a-z]\w*\.){2,}[A-Z][\w$]*(?:Exception|Error))\b:? ?([^\n]*)")


def classify(causes: Sequence[Cause], rules: Sequence[Rule] = ()) -> Classified:
    """The class of a failure: the first rule of the user that applies, else the most telling sign.

    ``causes`` has the outermost first; the type of an error of Holdfast begins with ``holdfast.``.
    What nothing tells about can be recovered from: a restart costs less than a job that stands
    still because of something unheard of.
    """
    witnesses = [witness for cause in causes for witness in (cause, *_told(cause))]
    found = _by_rules(rules, witnesses) or _by_signs(causes, witnesses)
    nothing = "no cause says that a restart cannot help"
    return found or Classified(
        FailureClass.RECOVERABLE, nothing, causes[-1] if causes else Cause("unknown")
    )


def _by_rules(rules: Sequence[Rule], witnesses: Sequence[Cause]) -> Classified | None:
    for rule in rules:
        for witness in witnesses:
            if _applies(rule, witness):
                return Classified(rule.kind, rule.why or "a rule of the job says so", witness)
    return None


def _applies(rule: Rule, cause: Cause) -> bool:
    return (
        (rule.type is None or _is_a(cause, rule.type))
        and (rule.condition is None or _has_condition(cause, rule.condition))
        and (rule.text is None or re.search(rule.text, cause.message) is not None)
    )


def _by_signs(causes: Sequence[Cause], witnesses: Sequence[Cause]) -> Classified | None:
    plain = [replace(cause, message=_without_frames(cause.message)) for cause in causes]
    for sign in SIGNS:
        typed = next(_with_type(sign, witnesses), None)
        shown, groups = (
            (typed, {}) if typed else next(_with_another(sign, plain, witnesses), _NOBODY)
        )
        if shown is not None:
            raised = shown.name if typed else _raised(causes) or shown.name
            said = shown.message.partition("\n")[0]
            why = sign.why.format(raised=raised, said=said, **groups)
            return Classified(sign.kind, why, shown, sign.outside, sign.others)
    return None


_NOBODY: tuple[Cause | None, dict[str, str]] = (None, {})


def _with_type(sign: Sign, witnesses: Iterable[Cause]) -> Iterator[Cause]:
    return (w for w in witnesses if any(_is_a(w, each) for each in sign.types))


def _with_another(
    sign: Sign, plain: Iterable[Cause], witnesses: Iterable[Cause]
) -> Iterator[tuple[Cause, dict[str, str]]]:
    for witness in witnesses:
        if any(_has_condition(witness, each) for each in sign.conditions):
            yield witness, {}
        if sign.states and (witness.sql_state or "").startswith(sign.states):
            yield witness, {}
    for cause in plain:
        found = (re.search(each, cause.message, re.IGNORECASE) for each in sign.texts)
        yield from ((cause, match.groupdict()) for match in found if match)


def _is_a(cause: Cause, pattern: str) -> bool:
    return fnmatchcase(cause.type, pattern) or fnmatchcase(cause.name, pattern)


def _has_condition(cause: Cause, pattern: str) -> bool:
    if cause.condition is None:
        return False
    if pattern.endswith(".*"):
        return f"{cause.condition}.".startswith(pattern[:-1])
    return cause.condition == pattern


def _told(cause: Cause) -> Iterator[Cause]:
    """Further causes that the text of this one speaks of."""
    text = _without_frames(cause.message)
    for condition in dict.fromkeys(_CONDITION.findall(text)):
        yield replace(cause, condition=condition)
    for sql_state in dict.fromkeys(_SQL_STATE.findall(text)):
        yield replace(cause, sql_state=sql_state)
    yield from _python_errors(cause.message)
    for name, message in _QUALIFIED.findall(text):
        yield Cause(name, message)


def _python_errors(text: str) -> Iterator[Cause]:
    """What each traceback ends with: its frames are indented, and the error behind them is not."""
    for traceback in text.split(_TRACEBACK)[1:]:
        error = next(iter(_without_frames(traceback).splitlines()), "")
        if found := _RAISED.match(error):
            yield Cause(found[1], found[2] or "")


def _raised(causes: Sequence[Cause]) -> str | None:
    """The exception that Python code raised, not the one by which Python heard of Java's."""
    names = [error.name for cause in causes for error in _python_errors(cause.message)]
    return next((name for name in reversed(names) if not name.startswith("Py4J")), None)


def _without_frames(text: str) -> str:
    """Stacks quote source code, in which any word may stand."""
    return "\n".join(line for line in text.splitlines() if line.strip() and line[0] not in " \t")
