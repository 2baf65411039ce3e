"""The ``holdfast`` command: what can be typed, and what the terminal shows."""

from __future__ import annotations

from typing import NoReturn

from holdfast.cli import signals


def main() -> NoReturn:
    """Run the command line of this process."""
    # Signals first: loading the rest takes long enough for somebody to press Ctrl-C.
    with signals.raised_as_exceptions():
        from holdfast.cli.app import run

        run()
