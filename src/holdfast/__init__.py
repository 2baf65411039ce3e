"""Fault tolerance and operations for PySpark streaming jobs, as Flink users have them."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from holdfast import sinks, sources
    from holdfast.job import Job

__all__ = ["Job", "__version__", "sinks", "sources"]


def __getattr__(name: str) -> Any:
    # On demand: most commands of the command line need none of it.
    import importlib

    if name == "Job":
        return importlib.import_module("holdfast.job").Job
    if name in ("sinks", "sources"):
        return importlib.import_module(f"holdfast.{name}")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
