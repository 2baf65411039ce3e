"""Every error Holdfast raises on purpose, or its parent: what only one module raises stands there.

HoldfastError
├── UsageError              the caller asked for something that cannot be
│   ├── DestinationExists   a target that must not exist is there
│   └── SettingsError       settings that are unknown, wrong or do not go together
├── QueryLogError           something about a query log
│   ├── NotAQueryLog        the directory is not one, or not yet one
│   ├── UnknownFormat       written in a format or version this release does not know
│   ├── DamagedFile         a file is truncated, altered or not decodable
│   ├── MissingFile         a file that is needed is not there
│   └── NotRestorable       the batch asked for cannot be restored
├── StorageError            reading or writing a file system failed
│   ├── FileMissing         the file asked for does not exist
│   └── AlreadyPublished    the file exists with other contents
└── EnvironmentProblem      this machine lacks something
    └── NoJava              no Java runtime that can run Spark

An error says what happened, with which ids, and what to do next. ``code`` never changes between
releases; ``retryable`` says whether the same call may succeed later without anyone's help.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


class HoldfastError(Exception):
    """What happened, the ids it happened to, and the next step."""

    code: ClassVar[str] = "HOLDFAST"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, **ids: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.ids = ids

    def __str__(self) -> str:
        ids = ", ".join(f"{name}={value}" for name, value in self.ids.items())
        text = f"{self.message} [{ids}]" if ids else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    # Spark pickles exceptions on their way to the driver; the default would lose hint and ids.
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.ids)

    def to_dict(self) -> dict[str, Any]:
        """The same, for programs."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
            "ids": {name: _plain(value) for name, value in self.ids.items()},
        }


@dataclass(frozen=True, slots=True)
class Cause:
    """One link in the chain of causes of a failure, in Python or in Java."""

    type: str
    """The full name of its class."""
    message: str = ""
    condition: str | None = None
    """Spark's name for it, or the code of one of our own errors."""
    sql_state: str | None = None

    @property
    def name(self) -> str:
        """The type without its package."""
        return self.type.rpartition(".")[2]


def _rebuild(
    cls: type[HoldfastError], message: str, hint: str | None, ids: dict[str, object]
) -> HoldfastError:
    return cls(message, hint=hint, **ids)


def _plain(value: object) -> object:
    return value if isinstance(value, (int, float, bool, str, type(None))) else str(value)


class UsageError(HoldfastError):
    """The caller asked for something that cannot be."""

    code = "USAGE"


class DestinationExists(UsageError):
    """A target that must not exist is there."""

    code = "DESTINATION_EXISTS"


class SettingsError(UsageError):
    """Settings that are unknown, wrong or do not go together; all of them at once."""

    code = "SETTINGS"


class QueryLogError(HoldfastError):
    """Something about a query log."""

    code = "QUERY_LOG"


class NotAQueryLog(QueryLogError):
    """The directory is not a query log, or not yet one."""

    code = "NOT_A_QUERY_LOG"


class UnknownFormat(QueryLogError):
    """Written in a format or version that this release does not know."""

    code = "UNKNOWN_FORMAT"


class DamagedFile(QueryLogError):
    """A file is truncated, altered or not decodable."""

    code = "DAMAGED_FILE"


class MissingFile(QueryLogError):
    """A file that is needed is not there."""

    code = "MISSING_FILE"


class NotRestorable(QueryLogError):
    """The batch asked for cannot be restored."""

    code = "NOT_RESTORABLE"


class StorageError(HoldfastError):
    """Reading or writing a file system failed."""

    code = "STORAGE"
    retryable = True


class FileMissing(StorageError):
    """The file asked for does not exist."""

    code = "FILE_MISSING"
    retryable = False


class AlreadyPublished(StorageError):
    """The file exists with other contents."""

    code = "ALREADY_PUBLISHED"
    retryable = False


class EnvironmentProblem(HoldfastError):
    """This machine lacks something."""

    code = "ENVIRONMENT"


class NoJava(EnvironmentProblem):
    """No Java runtime that can run Spark."""

    code = "NO_JAVA"
