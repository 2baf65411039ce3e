"""Ctrl-C, SIGTERM and SIGHUP as exceptions, so that whatever is under way cleans up behind it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Somebody asked this process to end.

    Also by Ctrl-C: libraries that know ``KeyboardInterrupt`` print it, py4j among them.
    """

    def __init__(self, number: int) -> None:
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        super().__init__(f"stopped by {name}")
        self.number = number

    @property
    def exit_code(self) -> int:
        """What a shell reports of a process that the signal ended."""
        return 128 + self.number


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
    except Interrupted as error:
        # Commands tell it themselves; this one came between them.
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    finally:
        for number in handled:
            signal.signal(number, before[number])


def _raise(number: int, handled: list[signal.Signals]) -> None:
    for each in handled:
        signal.signal(each, _ignore)
    raise Interrupted(number)


# A Python function and not SIG_IGN, which child processes would inherit.
def _ignore(_number: int, _frame: FrameType | None) -> None:
    return None
