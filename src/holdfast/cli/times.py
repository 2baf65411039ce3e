"""Durations, times and rates as people read them."""

from __future__ import annotations

from datetime import datetime


def duration(seconds: float | None) -> str:
    """``35 ms``, ``4.2 s``, ``3m 05s``, ``2h 10m``, ``3d 4h``."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 24 else f"{hours // 24}d {hours % 24}h"


def clock(seconds: float) -> str:
    """Local time of day, with the date."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def rate(per_second: float) -> str:
    """``12,000``, or ``0.4`` when it is little."""
    return f"{per_second:,.0f}" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}"


def number(value: int) -> str:
    """``1,200``; ``-`` for nothing."""
    return f"{value:,}" if value else "-"
