"""Pending transactions as people read them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from holdfast.cli.causes import essence
from holdfast.cli.terminal import prose
from holdfast.cli.times import clock, duration

Document = Mapping[str, Any]
_PARTS_SHOWN = 10
_STYLES = {"committed": "green", "aborted": "green", "refused": "yellow", "failed": "red"}


def listing(console: Console, found: Document) -> None:
    """``holdfast transactions list``."""
    if not found["transactions"] and not found["unreachable"]:
        nothing(console, found["job"])
    for each in found["transactions"]:
        prose(console, f"{each['sink']}, checkpoint {each['checkpoint']}{_since(each)}", "bold")
        prose(console, f"  {each['fate']}")
        for part in each["parts"][:_PARTS_SHOWN]:
            prose(console, f"  {part}", "dim")
        if len(each["parts"]) > _PARTS_SHOWN:
            prose(console, f"  … {len(each['parts']) - _PARTS_SHOWN} more; --json has all", "dim")
    for sink, error in found["unreachable"].items():
        prose(console, sink, "bold")
        prose(console, f"  could not be asked: {_brief(error)}", "red")


def _since(each: Document) -> str:
    if each["since"] is None:
        return ""
    ago = duration(max(0.0, time.time() - each["since"]))
    return f", since {clock(each['since'])} ({ago})"


def settled(console: Console, each: Document) -> None:
    """What was done with one transaction."""
    number = "" if each["checkpoint"] is None else f", checkpoint {each['checkpoint']}"
    reason = f": {_brief(each['reason'])}" if each["reason"] else ""
    text = f"{each['sink']}{number}: {each['outcome']}{reason}"
    prose(console, text, _STYLES.get(each["outcome"], ""))


def nothing(console: Console, job: Document) -> None:
    """There is nothing to see or to do."""
    prose(console, f"Nothing is pending for {job['name']} ({job['id']}).")


def _brief(error: str) -> str:
    return essence(error).strip()
