"""How a command ends when it cannot do what was asked: what is printed, and the exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from typing import Any, ParamSpec

import typer

from holdfast.cli.signals import Interrupted
from holdfast.cli.terminal import Terminal
from holdfast.errors import (
    EnvironmentProblem,
    HoldfastError,
    QueryLogError,
    StorageError,
    UsageError,
)

Params = ParamSpec("Params")


class ExitCode(IntEnum):
    """What ``holdfast --help`` promises."""

    FINE = 0
    PROBLEMS_FOUND = 1
    USAGE = 2
    REFUSED = 3
    ENVIRONMENT = 4
    JOB_FAILED = 5
    BUG = 70
    BROKEN_PIPE = 141


_BY_ERROR: dict[type[HoldfastError], ExitCode] = {
    UsageError: ExitCode.USAGE,
    QueryLogError: ExitCode.REFUSED,
    StorageError: ExitCode.ENVIRONMENT,
    EnvironmentProblem: ExitCode.ENVIRONMENT,
}


def exit_code(error: HoldfastError) -> ExitCode:
    """The exit code for an error that was raised on purpose."""
    for kind, code in _BY_ERROR.items():
        if isinstance(error, kind):
            return code
    # What else is raised on purpose comes out of a job that runs: a region, a checkpoint.
    return ExitCode.BUG if type(error) is HoldfastError else ExitCode.JOB_FAILED


def guarded(command: Callable[Params, None]) -> Callable[Params, None]:
    """Turn everything that a command may raise into a message and an exit code."""

    @wraps(command)
    def run(*args: Params.args, **kwargs: Params.kwargs) -> None:
        terminal = Terminal(as_json=bool(kwargs.get("as_json")))
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, SystemExit):
            raise
        except BrokenPipeError:
            raise typer.Exit(_without_reader()) from None
        except BaseException as error:
            raise typer.Exit(_tell(error, terminal)) from error

    return run


def _tell(error: BaseException, terminal: Terminal) -> int:
    match error:
        case HoldfastError():
            terminal.error(error.to_dict(), str(error))
            _print_traceback(error)
            return exit_code(error)
        case KeyboardInterrupt():
            return _tell(Interrupted(signal.SIGINT), terminal)
        case Interrupted():
            terminal.error(_plain("INTERRUPTED", str(error)), str(error))
            return error.exit_code
        case _:
            _tell_bug(error, terminal)
            return ExitCode.BUG


def _tell_bug(error: BaseException, terminal: Terminal) -> None:
    text = " ".join(traceback.format_exception_only(error)[-1].split())
    hint = "This is a bug in Holdfast. Run with HOLDFAST_DEBUG=1 for the traceback."
    terminal.error(_plain("BUG", text, hint), f"{text}\n  hint: {hint}")
    _print_traceback(error)


def _plain(code: str, message: str, hint: str | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint, "retryable": False, "ids": {}}


def _print_traceback(error: BaseException) -> None:
    if os.environ.get("HOLDFAST_DEBUG"):
        traceback.print_exception(error)


def _without_reader() -> ExitCode:
    """Whoever read the output has gone (``| head``): be silent, as if SIGPIPE had ended us."""
    # Python flushes stdout once more at its end and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.BROKEN_PIPE
