"""What a cluster says about itself; here it is one process with its jobs."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from holdfast import __version__
from holdfast.server.view import OVER, JobView

FLINK_VERSION = "2.3.0"
"""The release whose paths and shapes these are; clients look at it."""

_REFRESH_MILLISECONDS = 3000


def overview(views: Collection[JobView]) -> dict[str, Any]:
    """``/overview``."""
    states = [view.state for view in views]
    slots = sum(region.parallelism for view in views for region in view.regions)
    return {
        "taskmanagers": 1,
        "slots-total": slots,
        "slots-available": 0,
        "jobs-running": sum(state not in OVER for state in states),
        "jobs-finished": states.count("FINISHED"),
        "jobs-cancelled": states.count("CANCELED"),
        "jobs-failed": states.count("FAILED"),
        "flink-version": FLINK_VERSION,
        "flink-commit": f"holdfast-{__version__}",
        "taskmanagers-blocked": 0,
        "slots-free-and-blocked": 0,
    }


def config() -> dict[str, Any]:
    """``/config``."""
    zone = time.localtime()
    return {
        "refresh-interval": _REFRESH_MILLISECONDS,
        "timezone-name": zone.tm_zone,
        "timezone-offset": zone.tm_gmtoff * 1000,
        "flink-version": FLINK_VERSION,
        "flink-revision": f"holdfast-{__version__}",
        "features": {
            "web-submit": False,
            "web-cancel": True,
            "web-rescale": False,
            "web-history": False,
        },
    }
