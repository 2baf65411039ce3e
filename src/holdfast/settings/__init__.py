"""Settings of a job: Flink's keys, from arguments, environment, file and code, checked at once."""

from holdfast.errors import SettingsError
from holdfast.settings.known import OPTIONS, variable_of
from holdfast.settings.model import (
    Backend,
    Checkpointing,
    Described,
    Mode,
    Retention,
    Settings,
    StorageKind,
    Trigger,
)
from holdfast.settings.options import Option
from holdfast.settings.resolution import resolve

__all__ = [
    "OPTIONS",
    "Backend",
    "Checkpointing",
    "Described",
    "Mode",
    "Option",
    "Retention",
    "Settings",
    "SettingsError",
    "StorageKind",
    "Trigger",
    "resolve",
    "variable_of",
]
