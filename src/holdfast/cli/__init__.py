"""The ``holdfast`` command: what can be typed, and what the terminal shows."""

from holdfast.cli.app import main

__all__ = ["main"]
