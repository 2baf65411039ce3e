"""Ctrl-C, SIGTERM and SIGHUP as exceptions, so that whatever is under way cleans up behind it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """Somebody asked this process to end, other than by Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def raised_as_exceptions() -> Iterator[None]:
    """While this lasts, the first signal raises and later ones are ignored.

    A second Ctrl-C would otherwise end the clean-up that the first one began. A signal that was
    ignored when the process started (``nohup``, a shell's background job) stays ignored.
    """
    before = {n: signal.getsignal(n) for n in _SIGNALS}
    handled = [n for n, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, lambda n, _: _raise(n, handled))
    try:
        yield
    except (KeyboardInterrupt, Terminated) as error:
        # Commands tell it themselves; this one came between them.
        sys.stderr.write(f"error: {reason(error)}\n")
        sys.exit(exit_status(error))
    finally:
        for number in handled:
            signal.signal(number, before[number])


def reason(error: KeyboardInterrupt | Terminated) -> str:
    """What happened, for people."""
    return "stopped by Ctrl-C" if isinstance(error, KeyboardInterrupt) else f"stopped by {error}"


def exit_status(error: KeyboardInterrupt | Terminated) -> int:
    """The exit code that a shell gives to a process that the signal ended."""
    return 128 + (signal.SIGINT if isinstance(error, KeyboardInterrupt) else error.number)


def _raise(number: int, handled: list[signal.Signals]) -> None:
    for each in handled:
        signal.signal(each, _ignore)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


# A Python function and not SIG_IGN, which child processes would inherit.
def _ignore(_number: int, _frame: FrameType | None) -> None:
    return None
