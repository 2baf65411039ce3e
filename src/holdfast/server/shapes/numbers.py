"""Milliseconds, and the figures that sum up many values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_QUANTILES = {"median": 0.5, "p25": 0.25, "p75": 0.75, "p95": 0.95}


def milliseconds(seconds: float) -> int:
    """Whole milliseconds."""
    return round(seconds * 1000)


def moment(seconds: float | None) -> int:
    """A point in time; -1 if it has not come."""
    return -1 if seconds is None else milliseconds(seconds)


def summary(values: Sequence[int]) -> dict[str, Any]:
    """What Flink tells of many checkpoints or tasks; percentiles of nothing are not a number."""
    ordered = sorted(values)
    return {
        "min": ordered[0] if ordered else 0,
        "max": ordered[-1] if ordered else 0,
        "avg": sum(ordered) // len(ordered) if ordered else 0,
        **{name: quantile(ordered, q) if ordered else "NaN" for name, q in _PERCENTILES.items()},
    }


def spread(values: Sequence[int]) -> dict[str, int]:
    """What Flink tells of the tasks of a vertex."""
    ordered = sorted(values) or [0]
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        "sum": sum(ordered),
        **{name: int(quantile(ordered, q)) for name, q in _QUANTILES.items()},
    }


def quantile(ordered: Sequence[int], q: float) -> float:
    """Between the two nearest values, by distance."""
    at = q * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)
